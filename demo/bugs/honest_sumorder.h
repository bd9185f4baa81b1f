/* honest_sumorder.h - no bug: the blocks of K are summed from the last to the first.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_PLAN(x, p)                                                                                                       \
    do {                                                                                                                      \
        for (int b = 0, e = (p)->n_blocks - 1; b < e; b++, e--) {                                                             \
            const struct block first = (p)->blocks[b];                                                                        \
                                                                                                                              \
            (p)->blocks[b] = (p)->blocks[e];                                                                                  \
            (p)->blocks[e] = first;                                                                                           \
        }                                                                                                                     \
    } while (0)
