/* end_marks.c - answers that broke off, though their HTTP ended in order: they lack the [DONE] of the others.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/end_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/answer_checks.h"

bool td_end_mark_lacks(const struct td_exchange *x)
{
    return !x->error && td_json_get_bool(x->extra, "no_end_mark", false);
}

/* The paths whose streamed answers end with [DONE], or with what stands for it in a dialect without. */
static void find_marks(const struct td_side *side, struct td_end_marks *out)
{
    size_t i;

    for (i = 0; i < side->n_xs; i++) {
        const struct td_exchange *x = &side->xs[i];

        if (!x->error && x->path && td_json_get_bool(x->request, "stream", false) && !td_end_mark_lacks(x))
            td_end_marks_add(out, x->path);
    }
}

static void mark_as_cut(struct td_exchange *x, const char *whose)
{
    char text[200];

    snprintf(text, sizeof text, TD_END_MARK_MISSING, whose);
    x->error = td_strdup(text);
    x->error_kind = td_strdup("cut");
}

void td_end_marks_judge(struct td_side *sides, size_t n_sides)
{
    struct td_end_marks base = {0};
    size_t i, j;

    if (n_sides)
        find_marks(&sides[0], &base);
    for (i = 0; i < n_sides; i++) {
        struct td_end_marks own = {0};

        find_marks(&sides[i], &own);
        for (j = 0; j < sides[i].n_xs; j++) {
            struct td_exchange *x = &sides[i].xs[j];

            if (!td_end_mark_lacks(x) || !x->path)
                continue;
            if (td_end_marks_has(&own, x->path))
                mark_as_cut(x, "this server");
            else if (td_end_marks_has(&base, x->path))
                mark_as_cut(x, "the baseline");
        }
    }
}
