/* identify_vllm_cpu.c - identify 4-bit weights that vLLM's CPU build packed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"
#include "model/gptq_unpacked.h"
#include "model/vllm_layout.h"

#define BLOCK_N TD_VLLM_INT4_BLOCK_N
#define MAX_DIM (1 << 24)              /* of a layer: no product of sizes overflows */

struct sizes { int64_t n, k, groups; };

static bool read_sizes(const struct td_weight_set *s, int64_t block_n, struct sizes *z)
{
    int64_t group_size = td_weight_set_attr(s, "group_size", 0);

    z->n = td_weight_set_attr(s, "n", 0), z->k = td_weight_set_attr(s, "k", 0);
    if (z->n <= 0 || z->n > MAX_DIM || z->n % block_n || z->k <= 0 || z->k > MAX_DIM || z->k % 8)
        return false;
    if (group_size <= 0 || z->k % group_size)
        return false;
    z->groups = z->k / group_size;
    return true;
}

/* Identify w, which an unpacking function filled, or failed to fill with rc. A bias is stored as it
 * was sent. */
static int finish(struct td_weight_set *s, struct td_gptq_unpacked *w, int rc, struct td_error *err)
{
    int i;

    if (rc)
        return td_identify_unpack_error(rc, err);
    td_identify_unpacked(s, w, false);
    for (i = 0; i < s->n_sent; i++)
        if (!strcmp(s->sent[i].rec.role, "bias"))
            td_weight_set_add_sent(s, &s->sent[i]);
    return TD_OK;
}

/* A block of qweight is bk inputs of 4 bits and an int32 for each output; see
 * model/vllm_layout.h. */
static int64_t inputs_of_block(const struct td_tensor_rec *qweight)
{
    return qweight->ndim == 3 ? (qweight->shape[2] - BLOCK_N * 4) / (BLOCK_N / 2) : 0;
}

int td_identify_vllm_int4(struct td_weight_set *s, struct td_error *err)
{
    struct td_gptq_unpacked w;
    const void *q, *zeros, *scales;
    struct sizes z;
    int64_t blocks, bk = s->n_sent ? inputs_of_block(&s->sent[0].rec) : 0;

    if (!read_sizes(s, BLOCK_N, &z) || bk <= 0 || z.k % bk)
        return td_fail(err, TD_EUNSUPPORTED,
                       "weights of int4_scaled_mm_cpu in sizes that it cannot have");
    blocks = z.n / BLOCK_N;
    q = td_weight_set_sent(s, "qweight", "U8", 3,
                           (int64_t[]){blocks, z.k / bk, bk * BLOCK_N / 2 + BLOCK_N * 4});
    zeros = td_weight_set_sent(s, "qzeros", "I8", 3, (int64_t[]){blocks, z.groups, BLOCK_N});
    scales = td_weight_set_sent(s, "scales", "F32", 3, (int64_t[]){blocks, z.groups, BLOCK_N});
    if (!q || !zeros || !scales)
        return td_fail(err, TD_EUNSUPPORTED,
                       "weights of int4_scaled_mm_cpu in another form than vLLM 0.32 has them");
    return finish(s, &w, td_vllm_int4_unpack(q, zeros, scales, z.n, z.k, z.groups, bk, &w, err),
                  err);
}

int td_identify_vllm_wna16(struct td_weight_set *s, struct td_error *err)
{
    struct td_gptq_unpacked w;
    const void *q, *zeros = NULL, *scales;
    enum td_dtype dtype = TD_DT_F16;
    struct sizes z;
    bool ok;

    if (!read_sizes(s, TD_VLLM_WNA16_BLOCK_N, &z))
        return td_fail(err, TD_EUNSUPPORTED,
                       "weights of cpu_gemm_wna16 in sizes that it cannot have");
    q = td_weight_set_sent(s, "qweight", "I32", 2,
                           (int64_t[]){z.n / TD_VLLM_WNA16_BLOCK_N, 2 * z.k});
    scales = td_weight_set_sent(s, "scales", "F16", 2, (int64_t[]){z.groups, z.n});
    if (!scales &&
        (scales = td_weight_set_sent(s, "scales", "BF16", 2, (int64_t[]){z.groups, z.n})))
        dtype = TD_DT_BF16;
    ok = q && scales;
    if (ok && td_weight_set_has(s, "qzeros"))
        ok = (zeros = td_weight_set_sent(s, "qzeros", "I32", 2, (int64_t[]){z.groups, z.n / 8})) !=
             NULL;
    if (!ok)
        return td_fail(err, TD_EUNSUPPORTED,
                       "weights of cpu_gemm_wna16 in another form than vLLM 0.32 has them");
    return finish(s, &w, td_vllm_wna16_unpack(q, zeros, scales, dtype, z.n, z.k, z.groups, &w, err),
                  err);
}
