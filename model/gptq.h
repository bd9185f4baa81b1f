/* gptq.h - a GPTQ-quantised linear layer: its tensors, the rules they obey, and the values of its weights.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Layout and formula: kernels/abi/td_gptq.h (source: AutoGPTQ's qlinear modules, vLLM's gptq.py). */
#ifndef TD_MODEL_GPTQ_H
#define TD_MODEL_GPTQ_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "model/safetensors.h"

/* A layer as the checkpoint has it; borrows the file's read-only arrays. A layer that was made from a
 * run-time layout is struct td_gptq_unpacked (gptq_unpacked.h). */
struct td_gptq_weight {
    int bits;                /* 4 or 8 */
    int group_size;          /* > 0; a group size of -1 in a config is k here */
    int zero_offset;         /* 1: format "gptq" (stores zero - 1); 0: "gptq_v2" */
    int64_t k, n, groups;    /* inputs, outputs, k / group_size */
    const uint32_t *qweight; /* [k*bits/32, n] */
    const uint32_t *qzeros;  /* [groups, n*bits/32] */
    const uint16_t *scales;  /* [groups, n] f16 */
    const int32_t *g_idx;    /* [k], or NULL: rows are in group order */
    void *owned;             /* aligned copies where the file's data is misaligned */
    const void *awq;         /* not NULL: qweight is NULL, and this is qweight as AWQ packs it
                              * (model/awq.h), of any alignment */
};

/* Check the sizes alone: bits, group_size (> 0), k and n. 0, or TD_EUNSUPPORTED with the broken rule. */
int td_gptq_check_sizes(int bits, int64_t group_size, int64_t k, int64_t n, struct td_error *err);
/* Check sizes, pointers, and that every g_idx is in range. 0, TD_EINVAL or TD_EUNSUPPORTED. */
int td_gptq_check(const struct td_gptq_weight *w, struct td_error *err);

/* Find `<layer>.qweight`, `.qzeros`, `.scales`, `.g_idx` in st, check them against each other and fill
 * *out, which borrows from st and is to be released.
 *   group_size : as in the config; -1 means k
 * A g_idx that is k / group_size for every row becomes NULL. TD_ENOTFOUND: a tensor is missing. TD_EINVAL:
 * a wrong shape; the sentence has the expected and the found one. */
int td_gptq_weight_load(const struct td_safetensors *st, const char *layer, int bits, int group_size, int zero_offset,
                        struct td_gptq_weight *out, struct td_error *err);
void td_gptq_weight_release(struct td_gptq_weight *w); /* zeroed struct is allowed */

unsigned td_gptq_q(const struct td_gptq_weight *w, int64_t k, int64_t n);      /* the stored integer, 0 .. 2^bits - 1 */
int td_gptq_zero(const struct td_gptq_weight *w, int64_t g, int64_t n);        /* the true zero point: stored + zero_offset */
int64_t td_gptq_group(const struct td_gptq_weight *w, int64_t k);
/* The dequantised W, [k, n] row-major: (q - zero) * scale, which float holds exactly. */
void td_gptq_dequant_f32(const struct td_gptq_weight *w, float *out);
void td_gptq_dequant_f64(const struct td_gptq_weight *w, double *out);

/* Act-order as the run-time layouts of GPU kernels have it: perm[i] is the row of W that comes i-th when
 * rows are sorted by group (stable, as torch.argsort(stable)). perm : [k]; identity if g_idx is NULL. */
void td_gptq_argsort_groups(const struct td_gptq_weight *w, int32_t *perm);
/* Check perm, [k], k > 0, of any contents. TD_EINVAL: it is no permutation of 0 .. k - 1; TD_ENOMEM. */
int td_gptq_perm_check(const int32_t *perm, int64_t k, struct td_error *err);
/* The g_idx of rows that perm sorts into groups of group_size: g_idx[perm[i]] = i / group_size. perm is a permutation. */
void td_gptq_g_idx_of_perm(const int32_t *perm, int64_t k, int64_t group_size, int32_t *g_idx);
/* Is g_idx[k] equal to k / group_size for every row? Then it can be left out. */
bool td_gptq_g_idx_is_trivial(const int32_t *g_idx, int64_t k, int64_t group_size);

#endif
