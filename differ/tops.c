/* tops.c - read exchanges without the rows of their alternatives, and those of forks again.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/tops.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "differ/open_sides.h"
#include "differ/tokens.h"

#define MOST_EXCHANGES ((size_t)1 << 26)

/* ---- reading without rows --------------------------------------------------------------------- */

static int grow(struct td_side *s, size_t *cap, struct td_error *err)
{
    const size_t more = *cap ? *cap * 2 : 64;
    const char *name = td_fixture_files_dir(s->fx);
    struct td_exchange *xs;
    struct td_place *place;

    if (td_memory_room(more * (sizeof *xs + sizeof *place), name, err))
        return TD_ENOMEM;
    xs = more <= MOST_EXCHANGES ? realloc(s->xs, more * sizeof *xs) : NULL;
    s->xs = xs ? xs : s->xs;
    place = xs ? realloc(s->place, more * sizeof *place) : NULL;
    s->place = place ? place : s->place;
    *cap = more;
    return place ? TD_OK : td_fail(err, TD_ELIMIT, "%s: too many records for memory", name);
}

/* A record or frame that cannot be read is counted by the cursor, and one reads on. */
static bool reads_on(int rc)
{
    return rc == TD_ECORRUPT || rc == TD_ETRUNCATED || rc == TD_ELIMIT;
}

int td_tops_read(struct td_side *s, struct td_error *err)
{
    struct td_cursor *c;
    size_t cap = 0;
    int rc = td_cursor_open(s->fx, TD_STREAM_EXCHANGES, &c, err);

    if (rc)
        return rc;
    for (;;) {
        struct td_error why = {0};

        if (s->n_xs == cap && (rc = grow(s, &cap, err)))
            break;
        memset(&s->xs[s->n_xs], 0, sizeof *s->xs);
        rc = td_cursor_exchange(c, &s->xs[s->n_xs], &why);
        if (rc == 1) {
            td_exchange_drop_top(&s->xs[s->n_xs]);
            s->place[s->n_xs++] = td_cursor_place(c);
        } else if (!reads_on(rc)) {
            rc = rc ? td_fail(err, rc, "%s", why.msg) : TD_OK;
            break;
        }
    }
    s->bad_frames = (size_t)td_cursor_bad_frames(c);
    td_cursor_close(c);
    return rc;
}

/* ---- which rows are needed -------------------------------------------------------------------- */

/* The place of `at` among ascending numbers. */
static int32_t place_among(const int32_t *v, int32_t n, int32_t at)
{
    int32_t low = 0, high = n;

    while (low < high) {
        const int32_t middle = low + (high - low) / 2;

        if (v[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Note that a row is needed. */
static int need_row(struct td_exchange *x, int32_t at, struct td_error *err)
{
    const int32_t n = x->n_top_at, i = place_among(x->top_at, n, at);
    int32_t *grown;

    if (!x->top_summed || at >= x->n_tokens || (i < n && x->top_at[i] == at))
        return TD_OK;
    if ((n & (n - 1)) == 0) { /* full: of one, two, four ... */
        grown = realloc(x->top_at, (n ? 2 * (size_t)n : 1) * sizeof *grown);
        if (!grown)
            return td_fail(err, TD_ENOMEM, "no memory for the forks of an answer");
        x->top_at = grown;
    }
    memmove(&x->top_at[i + 1], &x->top_at[i], (size_t)(n - i) * sizeof *x->top_at);
    x->top_at[i] = at;
    x->n_top_at++;
    return TD_OK;
}

/* The exchange itself, which a group only borrows. */
static struct td_exchange *own(struct td_side *sides, size_t n, const struct td_exchange *x)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (x >= sides[i].xs && x < sides[i].xs + sides[i].n_xs)
            return &sides[i].xs[x - sides[i].xs];
    return NULL;
}

static int need_rows_of_pair(struct td_side *sides, size_t n, const struct td_exchange *base, const struct td_exchange *x,
                             struct td_error *err)
{
    const struct td_difference d = td_tokens_compare(base, x);
    const int32_t at = d.unit == TD_UNIT_BYTES ? 0 : d.position; /* of bytes, damage.c looks at the first token */
    struct td_exchange *a, *b;
    int rc;

    if (d.equal || !(a = own(sides, n, base)) || !(b = own(sides, n, x)))
        return TD_OK;
    rc = need_row(a, at, err);
    return rc ? rc : need_row(b, at, err);
}

static int need_rows_of_group(struct td_side *sides, size_t n, const struct td_prompt_group *g, struct td_error *err)
{
    size_t i, j;
    int r, rc = TD_OK;

    for (i = 0; i < g->n[TD_BASE]; i++)
        for (r = 0; r < TD_N_ROLES; r++)
            for (j = r == TD_BASE ? i + 1 : 0; j < g->n[r] && !rc; j++)
                rc = need_rows_of_pair(sides, n, g->by_role[TD_BASE][i].x, g->by_role[r][j].x, err);
    return rc;
}

/* ---- reading them ----------------------------------------------------------------------------- */

/* Copy the rows that are needed of an exchange that was read once more. */
static int take_rows(struct td_exchange *x, const struct td_exchange *again, const char *name, struct td_error *err)
{
    const size_t k = (size_t)again->top_k;
    int32_t i;

    if (again->stream != x->stream || again->n_tokens != x->n_tokens || again->top_k != x->top_k || !again->top)
        return td_fail(err, TD_ECORRUPT, "%s: the answer of stream %u changed while it was read", name, x->stream);
    x->top = malloc((size_t)x->n_top_at * k * sizeof *x->top);
    if (!x->top)
        return td_fail(err, TD_ENOMEM, "no memory for the forks of an answer");
    for (i = 0; i < x->n_top_at; i++)
        memcpy(x->top + (size_t)i * k, again->top + (size_t)x->top_at[i] * k, k * sizeof *x->top);
    return TD_OK;
}

static int fetch_side(struct td_side *s, struct td_error *err)
{
    struct td_exchange again = {0};
    struct td_cursor *c = NULL;
    int rc = TD_OK;
    size_t i;

    for (i = 0; i < s->n_xs && !rc; i++) {
        if (!s->xs[i].n_top_at)
            continue;
        if (!c)
            rc = td_cursor_open(s->fx, TD_STREAM_EXCHANGES, &c, err);
        if (!rc)
            rc = td_cursor_go(c, s->place[i], err);
        if (!rc && (rc = td_cursor_exchange(c, &again, err)) == 1)
            rc = take_rows(&s->xs[i], &again, td_fixture_files_dir(s->fx), err);
        else if (!rc)
            rc = td_fail(err, TD_ECORRUPT, "%s: an answer is no longer there", td_fixture_files_dir(s->fx));
    }
    td_exchange_release(&again);
    td_cursor_close(c);
    return rc;
}

int td_tops_fetch(struct td_side *sides, size_t n, const struct td_groups *g, struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < g->n && !rc; i++)
        rc = need_rows_of_group(sides, n, &g->group[i], err);
    return rc ? rc : td_sides_each(sides, n, fetch_side, err);
}
