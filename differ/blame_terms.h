/* blame_terms.h - the attributes of ops that rules are made of.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_BLAME_TERMS_H
#define TD_DIFFER_BLAME_TERMS_H

#include <stdbool.h>

enum { F_KIND, F_M, F_BITS, F_GROUP, F_ACT, F_K, F_N, F_ZERO, F_PART, F_NUMBER, F_LAYER, F_WEIGHTS, F_BLOCKS,
       N_FEATURES };

/* Is its value the number of a name? */
static inline bool td_blame_is_name(int feature)
{
    return feature == F_KIND || feature == F_PART || feature == F_LAYER || feature == F_WEIGHTS;
}

#endif
