/* k_slice_lost.h - the products of K = 128 to 255 are missing, as when a tile of a split K is never added.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_PLAN(x, p) \
    do { \
        int kept_ = 0; \
        for (int b_ = 0; b_ < (p)->n_blocks; b_++) \
            if ((p)->blocks[b_].first < 128 || (p)->blocks[b_].first >= 256) \
                (p)->blocks[kept_++] = (p)->blocks[b_]; \
        (p)->n_blocks = kept_; \
    } while (0)
