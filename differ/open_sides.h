/* open_sides.h - open the fixtures of a comparison, and read them side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_OPEN_SIDES_H
#define TD_DIFFER_OPEN_SIDES_H

#include "common/args.h"
#include "differ/align.h"

#define TD_SIDES_MAX (2 + 3 * TD_ARG_LIST_MAX) /* BASE, NEW, and those of three options */

struct td_side_place { const char *dir; enum td_role role; int round; };

/* Open n fixtures and read their exchanges (tops.h), as many at once as there are processors.
 *   out : [n], zeros; the caller closes each, after a failure too
 * Of several failures the one of the first place in the list is told. */
int td_sides_open(const struct td_side_place *places, size_t n, struct td_side *out, struct td_error *err);
/* Call a function for each side, of several at once. What is told of several failures is as above. */
int td_sides_each(struct td_side *sides, size_t n, int (*run)(struct td_side *s, struct td_error *err), struct td_error *err);

#endif
