/* identify.c - ask the identifier that knows the weights of an op.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Weights that no identifier knows are stored as they were sent. Unless they lay like the
 * checkpoint's, their op says so. */
#include "model/identify/identify.h"

#include <stdio.h>
#include <string.h>

#include "model/identify/identify_entries.h"

static const struct entry { const char *kind, *layout; td_identify_fn *identify; } entries[] = {
#define TABLE_LINE(kind, layout, function) {kind, layout, function},
    TD_IDENTIFY_ENTRIES(TABLE_LINE)
#undef TABLE_LINE
};

/* why : their layout could not be undone; NULL: there was none to undo */
static int store_as_sent(struct td_weight_set *s, const char *why, struct td_error *err)
{
    int i;

    for (i = 0; i < s->n_sent; i++)
        td_weight_set_add_sent(s, &s->sent[i]);
    if (s->name)
        snprintf(s->layer, sizeof s->layer, "%s", s->name);
    if (why) {
        s->layout_unknown = true;
        snprintf(s->why_unknown, sizeof s->why_unknown, "%.159s", why);
        td_weight_set_add_attr(s, TD_OP_LAYOUT_UNKNOWN, 1);
    }
    return td_weight_set_check(s, err);
}

static bool is_plain(const char *layout)
{
    return !*layout || !strcmp(layout, "checkpoint");
}

static bool entry_fits(const struct entry *e, const struct td_weight_set *s)
{
    size_t n = strlen(e->kind);
    bool same =
        e->kind[n - 1] == '*' ? !strncmp(e->kind, s->kind, n - 1) : !strcmp(e->kind, s->kind);

    return same && (!e->layout || !strcmp(e->layout, s->layout));
}

int td_identify_weights(struct td_weight_set *s, struct td_error *err)
{
    struct td_error why = {0};
    size_t i;
    int rc;

    for (i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (!entry_fits(&entries[i], s))
            continue;
        td_error_clear(&why);
        rc = entries[i].identify(s, &why);
        if (rc == TD_EUNSUPPORTED) {
            td_weight_set_release(s);
            continue;
        }
        return rc ? td_fail(err, rc, "%s", why.msg) : td_weight_set_check(s, err);
    }
    if (!why.msg[0])
        td_fail(&why, TD_EUNSUPPORTED, "no identifier knows it");
    return store_as_sent(s, is_plain(s->layout) ? NULL : why.msg, err);
}
