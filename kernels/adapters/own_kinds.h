/* own_kinds.h - the kinds of op that a row of one's own may describe (own_row.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ADAPTERS_OWN_KINDS_H
#define TD_KERNELS_ADAPTERS_OWN_KINDS_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

#define TD_OWN_ROLES 6

/* What a section may say of a kind of op, in the words of docs/format.md. Lists end with NULL, and
 * their first word is the default. */
struct td_own_kind {
    const char *name;                 /* "gptq_gemm" */
    const char *roles[TD_OWN_ROLES + 1]; /* of the inputs; "a" first, then the weight */
    int n_needed;                     /* so many of the first roles must be given */
    const char *layouts[4];           /* how W lies */
    const char *roundings[10];
    bool quantised;                   /* bits, group_size and zero_offset */
};

/* The kinds that a section may have; NULL after the last. */
const struct td_own_kind *td_own_kind_at(int i);
/* What a kernel declares of an op whose A has this type: "weight" is to A's type. Static. */
const char *td_own_rounding(const char *rounding, bool bf16);
/* The place of a role among those of the kind, -1: none. */
int td_own_kind_role(const struct td_own_kind *kind, const char *role);

#pragma GCC visibility pop
#endif
