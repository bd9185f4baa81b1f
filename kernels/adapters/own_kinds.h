/* own_kinds.h - the kinds of op that a row of one's own may describe (own_row.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ADAPTERS_OWN_KINDS_H
#define TD_KERNELS_ADAPTERS_OWN_KINDS_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define TD_OWN_ROLES 10

/* What a section may say of a kind of op, in the words of docs/format.md. Lists end with NULL, and
 * their first word is the default. */
struct td_own_kind {
    const char *name;                 /* "gptq_gemm" */
    const char *roles[TD_OWN_ROLES + 1]; /* of the inputs; "a" first, then the weight */
    int n_needed;                     /* so many of the first roles must be given */
    const char *layouts[4];           /* how W lies */
    const char *roundings[10];
    bool quantised;                   /* bits, group_size and zero_offset */
    const char *of_the_call[5];       /* inputs beside A that differ from call to call */
    bool routed;                      /* rows of A go to experts: top_k, block_size, mul_topk_weights and
                                         round_topk_weights; no kernel is described */
    bool eight_bits;                  /* A has 8 bits: the type of a C that is returned must be said,
                                         and no kernel is described */
};

/* The kinds that a section may have; NULL after the last. */
const struct td_own_kind *td_own_kind_at(int i);
/* What a kernel declares of an op whose A has this type: "weight" is to A's type. Static. */
const char *td_own_rounding(const char *rounding, bool bf16);
/* The place of a role among those of the kind, -1: none. */
int td_own_kind_role(const struct td_own_kind *kind, const char *role);

/* Is the role at that place an input that differs from call to call, as A does? Else a weight. */
bool td_own_kind_is_of_the_call(const struct td_own_kind *kind, int role);

#pragma GCC visibility pop
#endif
