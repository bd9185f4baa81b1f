/* step_rows.c - infer whose rows a step computed, where the server does not tell.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/step_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"

#define MOST_SPANS ((int64_t)1 << 22)
#define MOST_TOKENS ((int64_t)1 << 24) /* of a prompt, of an answer; and rows of a step */
#define AHEAD 3                       /* steps that may begin before a token of an earlier one has
                                         arrived */
#define SLACK_NS 5000000              /* a server may begin so long before the client notes that all
                                         was sent */
#define LATE_STEPS 2                  /* behind the last row of a group: begun before the server
                                         knew that it was the last */

/* A request in its group.
 *   fed  : its rows that were computed so far
 *   late : it stopped by itself in the step before; the server may have begun one more row of it */
struct member { const struct td_rows_request *x; int64_t fed; bool late; };

struct group {
    struct member *m; int n;          /* by their first tokens */
    struct td_rows_step *step; int64_t n_steps;
    bool guess;
    int64_t *room;                    /* spans that may still be made, by all groups together */
};

/* ---- one request ----------------------------------------------------------------------------- */

static int64_t first_known(int64_t reported, int64_t counted)
{
    return reported > 0 ? reported : counted > 0 ? counted : -1;
}

/* Rows of its prompt that were computed: less than its tokens where a part was cached. */
static int64_t prompt_rows(const struct td_exchange *x, const cJSON *computed)
{
    const int64_t all = first_known(x->usage.prompt_tokens, x->n_prompt_ids), cached = td_json_get_i64(computed, "cached", 0),
                  rows = td_json_get_i64(computed, "prompt", -1);

    return rows > 0 ? rows : all > 0 && cached >= 0 && cached < all ? all - cached : -1;
}

bool td_rows_add(struct td_rows_requests *all, const struct td_exchange *x)
{
    const cJSON *computed = td_json_get(x->extra, "computed");

    if (all->n == all->cap) {
        const size_t cap = all->cap ? all->cap * 2 : 64;
        struct td_rows_request *more = realloc(all->x, cap * sizeof *more);

        if (!more)
            return false;
        all->x = more;
        all->cap = cap;
    }
    all->x[all->n++] = (struct td_rows_request){
        .stream = x->stream,
        .sent_ns = x->t_sent_ns,
        .first_ns = x->n_events ? x->events[0].t_ns : 0,
        .end_ns = x->t_end_ns,
        .prompt = x->error ? -1 : prompt_rows(x, computed),
        .generated =
            x->error ? -1
                     : first_known(td_json_get_i64(computed, "answer", x->usage.completion_tokens), x->token_ids ? x->n_tokens : 0),
        .cached = td_json_get_i64(computed, "cached", 0) > 0 ? td_json_get_i64(computed, "cached", 0) : 0,
        .at_once = x->n_events == 1 && x->n_tokens > 1,
        .stopped = x->finish_reason && !strcmp(x->finish_reason, "stop")};
    return true;
}

/* All rows of a request. The last token of the answer is computed from the one before it: it has no
 * row of its own. */
static int64_t total_rows(const struct td_rows_request *x)
{
    return x->prompt + x->generated - 1;
}

static bool is_known(const struct td_rows_request *x)
{
    return x->prompt > 0 && x->prompt <= MOST_TOKENS && x->generated > 0 &&
           x->generated <= MOST_TOKENS && x->cached <= MOST_TOKENS && x->first_ns > 0;
}

static bool is_running(const struct member *m)
{
    return m->fed && m->fed < total_rows(m->x);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static void remove_spans(struct td_rows_step *p)
{
    free(p->step.spans);
    p->step.spans = NULL;
    p->step.n_spans = 0;
    p->step.padding = 0;
    p->step.how = TD_HOW_UNKNOWN;
}

/* Give `rows` rows of step p, from `row` on, to request x. position -1: not known; the span is
 * decoding then if a token has come before. False: out of memory, or no room for another span. */
static bool add_span(struct group *g, struct td_rows_step *p, const struct td_rows_request *x,
                     int64_t row, int64_t rows, int64_t position)
{
    struct td_span *more =
        *g->room > 0 ? realloc(p->step.spans, ((size_t)p->step.n_spans + 1) * sizeof *more) : NULL;

    if (!more)
        return false;
    --*g->room;
    p->step.spans = more;
    p->step.spans[p->step.n_spans++] =
        (struct td_span){x->stream, (int32_t)row, (int32_t)rows, (int32_t)(position < 0 ? -1 : position + x->cached),
                         position < 0 ? p->begun_ns > x->first_ns : position >= x->prompt};
    p->step.how = TD_HOW_INFERRED;
    return true;
}

/* Did the first token of x come when it should if step i computed the end of its prompt? Some steps
 * may begin before it is out. */
static bool came_after(const struct group *g, int64_t i, const struct td_rows_request *x)
{
    return x->sent_ns <= g->step[i].begun_ns + SLACK_NS && x->first_ns > g->step[i].begun_ns &&
           (x->at_once || i + AHEAD >= g->n_steps || x->first_ns < g->step[i + AHEAD].begun_ns);
}

/* ---- a request that was alone ---------------------------------------------------------------- */

/* Walk the steps of a request that was alone. 1: they are exactly its rows; 0: they are not; -1:
 * out of memory. */
static int walk_one(struct group *g)
{
    struct member *m = g->m;
    int64_t i, rows, late = 0;

    if (!is_known(m->x))
        return 0;
    for (i = 0; i < g->n_steps; i++, m->fed += rows) {
        struct td_rows_step *p = &g->step[i];
        const int64_t left = m->fed < m->x->prompt ? m->x->prompt - m->fed : 1;

        rows = 0;
        if (m->fed == total_rows(m->x) && ++late <= LATE_STEPS)
            continue;
        if (late || p->rows < 1 || p->rows > MOST_TOKENS || (p->rows > left && !p->padded))
            return 0;
        rows = p->rows < left ? p->rows : left;
        if (m->fed < m->x->prompt && m->fed + rows == m->x->prompt && !came_after(g, i, m->x))
            return 0;
        if (!add_span(g, p, m->x, 0, rows, m->fed))
            return -1;
        p->step.padding = (int32_t)(p->rows - rows);
    }
    return m->fed == total_rows(m->x);
}

/* Some steps are missing (a sample). Could all that are there be this request's, its prompt
 * first? */
static bool could_be_of_one(const struct group *g)
{
    const struct td_rows_request *x = g->m->x;
    int64_t i, ones = 0;

    for (i = 0; i < g->n_steps; i++) {
        const struct td_rows_step *p = &g->step[i];

        if (p->padded || (p->rows != 1 && (i || p->rows != x->prompt)))
            return false;
        ones += p->rows == 1;
    }
    return is_known(x) && ones <= x->generated;
}

/* Give a request that was alone all steps that there are, at unknown positions, if they could be
 * its own. -1: out of memory. */
static int guess_one(struct group *g)
{
    int64_t i;

    if (!could_be_of_one(g))
        return 1;
    for (i = 0; i < g->n_steps; i++)
        if (!add_span(g, &g->step[i], g->m->x, 0, g->step[i].rows, -1))
            return -1;
    return 1;
}

/* ---- several at once ------------------------------------------------------------------------- */

/* Is there, behind the first k members, another prompt of this length that step i may have computed
 * as well? */
static bool has_twin(const struct group *g, int k, int64_t i, int64_t prompt)
{
    for (; k < g->n; k++)
        if (!g->m[k].fed && g->m[k].x->prompt == prompt && came_after(g, i, g->m[k].x))
            return true;
    return false;
}

/* Count the next prompts, in the order of their first tokens, that are exactly `rows` rows of step
 * i. 0: none are, or other prompts could be as well. */
static int count_prompts(const struct group *g, int64_t rows, int64_t i)
{
    int64_t sum = 0;
    int k, j, n = 0;

    for (k = 0; k < g->n && sum < rows; k++)
        if (!g->m[k].fed) {
            if (!came_after(g, i, g->m[k].x))
                return 0;
            sum += g->m[k].x->prompt;
            n++;
        }
    for (j = 0; j < k && sum == rows; j++)
        if (!g->m[j].fed && has_twin(g, k, i, g->m[j].x->prompt))
            return 0;
    return sum == rows ? n : 0;
}

/* Could step i have computed a prompt? */
static bool may_begin(const struct group *g, int64_t i)
{
    for (int k = 0; k < g->n; k++)
        if (!g->m[k].fed && came_after(g, i, g->m[k].x))
            return true;
    return false;
}

/* Explain `more` rows of step i beyond one for each running answer: by prompts that begin, and by
 * up to `late` rows of answers that have just ended. Returns how many prompts begin; -1: there is
 * no explanation, or more than one. */
static int explain_rows(const struct group *g, int64_t more, int64_t late, int64_t i)
{
    int found = -1, ways = 0;

    if (g->step[i].padded)
        return more >= 0 && !may_begin(g, i) ? 0 : -1;
    for (int64_t k = 0; k <= late && k <= more; k++) {
        const int begin = more > k ? count_prompts(g, more - k, i) : 0;

        if (begin || k == more) {
            found = begin;
            ways++;
        }
    }
    return ways == 1 ? found : -1;
}

/* Give step p to the answers that run, a row each, and to the next `begin` prompts. False: out of
 * memory, or no room. */
static bool feed_all(struct group *g, struct td_rows_step *p, int begin)
{
    int64_t left = p->rows;
    int k;

    for (k = 0; k < g->n; k++) {
        struct member *m = &g->m[k];
        const bool starts = !m->fed && begin && begin--, runs = is_running(m);
        const int64_t rows = starts ? m->x->prompt : runs;

        if (rows && !add_span(g, p, m->x, -1, rows, m->fed))
            return false;
        m->fed += rows;
        left -= rows;
        m->late = rows && m->x->stopped && m->fed == total_rows(m->x);
    }
    if (p->step.n_spans == 1 && (p->padded || p->rows == p->step.spans[0].n_rows))
        p->step.spans[0].first_row = 0; /* no other rows are there */
    p->step.padding = p->padded ? (int32_t)left : 0;
    return true;
}

/* 1: step i is explained; 0: it is not; -1: out of memory. */
static int walk_step(struct group *g, int64_t i)
{
    struct td_rows_step *p = &g->step[i];
    int64_t running = 0, late = 0;
    int k, begin;

    for (k = 0; k < g->n; k++) {
        running += is_running(&g->m[k]);
        late += g->m[k].late;
    }
    if (p->rows < 1 || p->rows > MOST_TOKENS ||
        (begin = explain_rows(g, p->rows - running, late, i)) < 0)
        return 0;
    return feed_all(g, p, begin) ? 1 : -1;
}

static bool is_done(const struct group *g)
{
    int i = 0;

    while (i < g->n && g->m[i].fed == total_rows(g->m[i].x))
        i++;
    return i == g->n;
}

static int walk_several(struct group *g)
{
    int64_t i, late = 0;
    int k, rc;

    for (k = 0; k < g->n; k++)
        if (!is_known(g->m[k].x) || (g->m[k].x->at_once && g->m[k].x->generated > 1))
            return 0; /* when an answer came at once, nobody saw its first token */
    for (i = 0; i < g->n_steps; i++) {
        if (is_done(g) && ++late <= LATE_STEPS)
            continue;
        if (late)
            return 0;
        if ((rc = walk_step(g, i)) < 1)
            return rc;
    }
    return is_done(g);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Name the steps of a group, or remove what was named when it does not come out. -1: out of
 * memory. */
static int walk_group(struct group *g)
{
    int64_t i;
    int rc = g->n == 1 ? walk_one(g) : walk_several(g);

    for (i = 0; i < g->n_steps && rc < 1; i++)
        remove_spans(&g->step[i]);
    return !rc && g->n == 1 && g->guess ? guess_one(g) : rc;
}

static int by_time(const void *a, const void *b)
{
    const struct td_rows_step *x = a, *y = b;

    return (x->begun_ns > y->begun_ns) - (x->begun_ns < y->begun_ns);
}

static int by_sent(const void *a, const void *b)
{
    const struct td_rows_request *x = a, *y = b;

    return (x->sent_ns > y->sent_ns) - (x->sent_ns < y->sent_ns);
}

static int by_first_token(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    return (x->x->first_ns > y->x->first_ns) - (x->x->first_ns < y->x->first_ns);
}

/* Requests that were never sent come first in time, and belong to no group. */
int64_t td_rows_infer(struct td_rows_step *steps, size_t n_steps, struct td_rows_request *requests,
                      size_t n_requests, bool guess)
{
    struct member *m = calloc(n_requests + 1, sizeof *m);
    size_t i = 0, at = 0, end;
    int64_t named = 0, room = MOST_SPANS, until = 0;
    int rc = m ? 0 : -1;

    if (n_steps)
        qsort(steps, n_steps, sizeof *steps, by_time);
    if (n_requests)
        qsort(requests, n_requests, sizeof *requests, by_sent);
    for (; i < n_requests && rc >= 0; i = end) {
        const int64_t from =
            requests[i].sent_ns - SLACK_NS > until ? requests[i].sent_ns - SLACK_NS : until;
        struct group g = {.m = m, .room = &room, .guess = guess};

        until = requests[i].end_ns;
        for (end = i; end < n_requests && (end == i || requests[end].sent_ns < until); end++) {
            m[g.n++] = (struct member){.x = &requests[end]};
            until = requests[end].end_ns > until ? requests[end].end_ns : until;
        }
        qsort(m, (size_t)g.n, sizeof *m, by_first_token);
        while (at < n_steps && steps[at].begun_ns < from)
            at++;
        for (g.step = steps + at; at < n_steps && steps[at].begun_ns < until; at++)
            g.n_steps++;
        rc = walk_group(&g);
    }
    free(m);
    for (i = 0; i < n_steps; i++)
        named += steps[i].step.how == TD_HOW_INFERRED;
    return rc < 0 && room ? -1 : named; /* no room is no failure: steps that were not reached stay
                                           unknown */
}
