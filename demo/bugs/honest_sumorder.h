/* honest_sumorder.h - no bug: every two neighbouring blocks of K are summed in the other order.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_PLAN(x, p)                                                                                                       \
    do {                                                                                                                      \
        for (int b = 0; b + 1 < (p)->n_blocks; b += 2) {                                                                      \
            const struct block first = (p)->blocks[b];                                                                        \
                                                                                                                              \
            (p)->blocks[b] = (p)->blocks[b + 1];                                                                              \
            (p)->blocks[b + 1] = first;                                                                                       \
        }                                                                                                                     \
    } while (0)
