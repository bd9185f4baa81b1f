/* report_terms.c - times of all fixtures in the terms of another tool.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_terms.h"

#include "common/log.h"

/* Read the wire log of a fixture again. *bad: frames that cannot be read. */
static int read_wire(struct td_fixture *fx, struct td_measured_set *set, size_t *bad, struct td_error *err)
{
    struct td_cursor *cursor;
    struct td_wire rec;
    int rc = td_cursor_open(fx, TD_STREAM_WIRE, &cursor, err);

    while (!rc) {
        struct td_error why = {0, ""};
        const int got = td_cursor_wire(cursor, &rec, &why);

        if (got == 1)
            rc = td_measured_add_wire(set, &rec, err);
        else if (got == TD_ECORRUPT || got == TD_ETRUNCATED)
            ++*bad;
        else if (got < 0)
            rc = td_fail(err, got, "%s", why.msg);
        else
            break;
    }
    td_cursor_close(cursor);
    return rc;
}

static int write_side(const struct td_comparison *c, const struct td_side *side, struct td_jw *w, struct td_error *err)
{
    struct td_measured_set set = {.dialect = c->dialect, .in_turns = td_measured_in_turns(td_fixture_manifest(side->fx))};
    size_t bad = 0, i;
    int rc = TD_OK;

    for (i = 0; !rc && i < side->n_xs; i++)
        rc = td_measured_add_exchange(&set, &side->xs[i], err);
    if (!rc && td_measured_needs_wire(set.dialect))
        rc = read_wire(side->fx, &set, &bad, err);
    if (!rc)
        rc = td_measured_end(&set, err);
    if (!rc && td_measured_unseen(&set))
        td_log(TD_LOG_WARN, "diff", "%s: %zu of %zu exchanges have no bytes in the wire log, so no times in terms of %s",
               td_fixture_dir(side->fx), td_measured_unseen(&set), set.n, td_dialect_name(set.dialect));
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "role", td_role_key(side->role));
    td_jw_i64(w, "round", side->round);
    td_jw_i64(w, "bad_frames", (int64_t)(side->bad_frames + bad));
    if (!rc)
        rc = td_figures_write(&set, c->wanted, w, err);
    td_jw_end(w);
    td_measured_release(&set);
    return rc;
}

int td_terms_of_sides_write(const struct td_comparison *c, struct td_jw *w, struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    if (!c->wanted)
        return TD_OK;
    td_jw_obj(w, "metrics");
    td_terms_write(c->dialect, w);
    td_jw_arr(w, "fixtures");
    for (i = 0; !rc && i < c->n_sides; i++)
        rc = write_side(c, &c->side[i], w, err);
    td_jw_end(w);
    td_jw_end(w);
    return rc;
}
