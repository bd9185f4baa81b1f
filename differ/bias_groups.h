/* bias_groups.h - the ops that bias is judged of, by groups: kernel, shape, type of the output, class of M.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_BIAS_GROUPS_H
#define TD_DIFFER_BIAS_GROUPS_H

#include "differ/slice_tests.h"

/* Ops of one group, [first, first + n) of the list: sorted by layer, then by input. pooled: of several
 * classes of M, none of which has ops enough. */
struct td_bias_part { size_t first, n; bool pooled; };

struct td_bias_groups {
    struct td_slice_op *ops; size_t n;
    struct td_bias_part *part; size_t n_parts;
    size_t without; /* ops that should have slices, and lack them */
    size_t digests; /* ops that are left out since a digest of their output was recorded */
};

/* Find the ops whose slices are known on both sides, and divide them. TD_OK; TD_ENOMEM. To be released
 * in either case. */
int td_bias_groups_find(struct td_judged_ops *candidate, struct td_bias_groups *out);
void td_bias_groups_release(struct td_bias_groups *g);

#endif
