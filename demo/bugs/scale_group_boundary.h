/* scale_group_boundary.h - the first 8 rows of every group but the first still use the scale and
 * zero point of the group before. SPDX-License-Identifier: Apache-2.0
 *
 * As a kernel that looks for the next group only when it has used up what it loaded. Act-order
 * takes another path, which is right. */
#define STEP_PLAN(x, p)                                                                                                       \
    do {                                                                                                                      \
        for (int b = 1; !(x)->g_idx && b < (p)->n_blocks; b++)                                                                \
            if ((p)->blocks[b].group != (p)->blocks[b - 1].group) {                                                           \
                (p)->blocks[b - 1].end += 8;                                                                                  \
                (p)->blocks[b].first += 8;                                                                                    \
            }                                                                                                                 \
    } while (0)
