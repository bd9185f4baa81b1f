/* send_plan.c - make lists of requests, also from a recording.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/send_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/api_body.h"
#include "wire/client.h"

#define DAY_NS (86400.0 * TD_NS_PER_S)
#define MOST_WAIT_NS (31 * DAY_NS)

#define PLAN_MAX 10000000

void td_plan_item_release(struct td_plan_item *it)
{
    free(it->prompt_id);
    free(it->category);
    free(it->api);
    free(it->method);
    free(it->path);
    free(it->role);
    free(it->body);
    it->prompt_id = it->category = it->api = it->method = it->path = it->role = it->body = NULL;
}

static char *dup_str(const char *s)
{
    return td_strdup(s ? s : "");
}

int td_plan_add(struct td_plan *p, const struct td_plan_item *item, struct td_error *err)
{
    struct td_plan_item it = *item;
    int rc = td_array_grow(&p->items, p->n, &p->cap, sizeof *p->items, PLAN_MAX);

    if (rc == TD_ELIMIT)
        return td_fail(err, rc, "a plan of more than %d requests", PLAN_MAX);
    if (rc)
        return td_fail(err, rc, "out of memory for %zu requests", p->n + 1);
    it.prompt_id = dup_str(item->prompt_id);
    it.category = dup_str(item->category);
    it.api = dup_str(item->api);
    it.method = dup_str(item->method ? item->method : "POST");
    it.path = dup_str(item->path);
    it.role = dup_str(item->role);
    it.body = malloc(item->body_len + 1);
    if (!it.prompt_id || !it.category || !it.api || !it.method || !it.path || !it.role || !it.body) {
        td_plan_item_release(&it);
        return td_fail(err, TD_ENOMEM, "out of memory for a request of %zu bytes", item->body_len);
    }
    if (item->body_len)
        memcpy(it.body, item->body, item->body_len);
    it.body[item->body_len] = '\0';
    p->items[p->n++] = it;
    return TD_OK;
}

void td_plan_release(struct td_plan *p)
{
    size_t i;

    for (i = 0; i < p->n; i++)
        td_plan_item_release(&p->items[i]);
    free(p->items);
    *p = (struct td_plan)TD_PLAN_INIT;
}

int64_t td_plan_next_group(const struct td_plan *p)
{
    return p->n ? p->items[p->n - 1].group + 1 : 0;
}

int64_t td_plan_next_loop(const struct td_plan *p)
{
    size_t i = p->n;

    while (i && !p->items[i - 1].loop)
        i--;
    return i ? p->items[i - 1].loop + 1 : 1;
}

static int by_stream(const void *a, const void *b)
{
    const struct td_exchange *x = *(struct td_exchange *const *)a, *y = *(struct td_exchange *const *)b;

    return x->stream < y->stream ? -1 : x->stream > y->stream;
}

/* The group that is being put together. t_end: when its last exchange ended so far; loop: number of the loop that it
 * is of, or was the last one of; most: of what was due, or others sent, in flight at once */
struct group_of { int64_t recorded, t_end, number, loop; int32_t most, size; const struct td_exchange *first, *last; };

static bool was_due(const struct td_exchange *x)
{
    return td_json_get_i64(x->extra, "due_ns", 0) > 0;
}

#define DUE_LOOP INT64_MAX /* what was due at a time, or sent by others, and goes as soon as possible */

/* The loop that it is sent in; 0: none. As soon as possible does not mean all at once: what was due at a time, or sent by
 * others, had others in flight beside it, and that many are the bound then. */
static int64_t loop_of(const struct td_exchange *x, double speed)
{
    return (speed == 0 && was_due(x)) || (speed <= 0 && td_exchange_by_others(x)) ? DUE_LOOP : td_json_get_i64(x->extra, "loop", 0);
}

/* Of repeats that start over, those of a loop that held all of them are one loop, too. */
static bool same_loop(const struct td_exchange *a, const struct td_exchange *b, double speed)
{
    return a && loop_of(a, speed) > 0 && loop_of(a, speed) == loop_of(b, speed) && a->phase == b->phase &&
           (a->concurrency == b->concurrency || td_exchange_by_others(a)); /* of others it says how many were in flight then */
}

/* Has this a time of its own to be sent at, whatever became of the requests before? What was due has one at any speed but
 * as soon as possible; what followed others in a loop, or what others sent (a passive recording), where recorded times are
 * asked for. */
static bool waits_for_nothing(const struct td_exchange *before, const struct td_exchange *x, double speed)
{
    const bool others = td_json_get_i64(before->extra, "group", -1) < 0 && td_json_get_i64(x->extra, "group", -1) < 0;

    return (speed > 0 && (others || same_loop(before, x, speed))) || (speed != 0 && was_due(before) && was_due(x));
}

static bool same_group(const struct group_of *g, const struct td_exchange *x, double speed)
{
    int64_t recorded = td_json_get_i64(x->extra, "group", -1);

    if (!g->first || g->first->phase != x->phase)
        return false;
    if (waits_for_nothing(g->first, x, speed) && (loop_of(x, speed) > 0 || g->recorded == recorded))
        return true;
    if (g->first->repeat != x->repeat || (loop_of(x, speed) == DUE_LOOP && g->size >= g->most))
        return false;
    if (recorded >= 0 || g->recorded >= 0)
        return recorded == g->recorded;
    return g->first->concurrency == x->concurrency && g->size < x->concurrency && x->t_sent_ns < g->t_end;
}

/* After the plan's start; a recording's times are its author's, and nobody waits for years. */
static int set_time(struct td_plan_item *it, const struct td_exchange *x, int64_t t0, double speed, struct td_error *err)
{
    const double ns = (double)(x->t_sent_ns - t0) / speed;

    if (ns > MOST_WAIT_NS)
        return td_fail(err, TD_ELIMIT, "the request of stream %u was sent %.0f days after the first one; replay waits for 31 at most: "
                       "--timing asap does not wait", x->stream, ns / DAY_NS);
    it->at_ns = (int64_t)ns;
    return TD_OK;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* How many of these that were due at a time, or sent by others, were in flight at once; 1 at least.
 *   ends : room for 2 n numbers */
static int32_t most_in_flight(const struct td_exchange *const *xs, size_t n, int64_t *ends)
{
    int64_t *starts = ends + n;
    size_t i, j = 0, m = 0;
    int32_t most = 1;

    for (i = 0; i < n; i++)
        if ((was_due(xs[i]) || td_exchange_by_others(xs[i])) && xs[i]->t_sent_ns > 0 && xs[i]->t_end_ns > xs[i]->t_sent_ns) {
            starts[m] = xs[i]->t_sent_ns;
            ends[m++] = xs[i]->t_end_ns;
        }
    qsort(starts, m, sizeof *starts, by_time);
    qsort(ends, m, sizeof *ends, by_time);
    for (i = 0; i < m; i++) {
        while (ends[j] <= starts[i])
            j++;
        most = (int32_t)(i - j + 1) > most ? (int32_t)(i - j + 1) : most;
    }
    return most < TD_CLIENT_MAX_IN_FLIGHT ? most : TD_CLIENT_MAX_IN_FLIGHT;
}

/* Begin another group, or another loop. */
static void follow(struct group_of *g, const struct td_exchange *x, double speed)
{
    if (!same_loop(g->last, x, speed))
        g->loop += loop_of(x, speed) > 0;
    if (!same_group(g, x, speed))
        *g = (struct group_of){td_json_get_i64(x->extra, "group", -1), 0, g->number + 1, g->loop, g->most, 0, x, x};
    g->size++;
    g->t_end = x->t_end_ns > g->t_end ? x->t_end_ns : g->t_end;
    g->last = x;
}

static int add_recorded(struct td_plan *p, const struct td_exchange *x, const struct group_of *g, int64_t t0, double speed,
                        struct td_error *err)
{
    struct td_buf body = TD_BUF_INIT((size_t)256 << 20);
    struct td_jw w;
    struct td_plan_item it = {.prompt_id = x->prompt_id, .category = x->category, .api = x->api, .method = x->method,
                              .path = x->path, .repeat = x->repeat, .concurrency = x->concurrency, .phase = x->phase,
                              .group = g->number, .at_ns = -1};
    int rc = TD_OK;

    if (speed < 0)
        speed = was_due(x);
    if (speed > 0 && x->t_sent_ns && (rc = set_time(&it, x, t0, speed, err)))
        return rc;
    it.connection = td_json_get_i64(x->extra, "connection", 0);
    if (loop_of(x, speed) == DUE_LOOP)
        it.concurrency = g->most;
    it.loop = it.at_ns < 0 && it.concurrency > 0 && loop_of(x, speed) > 0 ? g->loop : 0; /* a loop has one in flight at least */
    td_jw_init(&w, &body, false);
    td_jw_value(&w, NULL, x->request);
    it.body = body.data;
    it.body_len = body.len;
    rc = body.failed ? td_fail(err, TD_ELIMIT, "the request of stream %u is longer than 256 MiB", x->stream)
                     : td_plan_add(p, &it, err);
    td_buf_release(&body);
    return rc;
}

static int by_connection(const void *a, const void *b)
{
    const struct td_plan_item *x = *(struct td_plan_item *const *)a, *y = *(struct td_plan_item *const *)b;

    return x->connection != y->connection ? (x->connection < y->connection ? -1 : 1) : (x > y) - (x < y);
}

/* Behind the last request of a connection it is closed, and each of the others is before another one. */
static int link_connections(struct td_plan *p, struct td_error *err)
{
    struct td_plan_item **at = malloc((p->n + 1) * sizeof(struct td_plan_item *));
    size_t i;

    if (!at)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu requests", p->n);
    for (i = 0; i < p->n; i++)
        at[i] = &p->items[i];
    qsort(at, p->n, sizeof(struct td_plan_item *), by_connection);
    for (i = 0; i < p->n; i++) {
        at[i]->last_of_connection = at[i]->connection > 0 && (i + 1 == p->n || at[i + 1]->connection != at[i]->connection);
        at[i]->before = i && at[i]->connection > 0 && at[i - 1]->connection == at[i]->connection ? (size_t)(at[i - 1] - p->items) + 1 : 0;
    }
    free(at);
    return TD_OK;
}

int td_plan_from_exchanges(const struct td_exchange *xs, size_t n, unsigned phases, double speed, struct td_plan *p,
                           size_t *skipped, struct td_error *err)
{
    const struct td_exchange **order = malloc((n + 1) * sizeof *order);
    int64_t *times = malloc((2 * n + 1) * sizeof *times);
    struct group_of g = {.number = td_plan_next_group(p) - 1, .loop = td_plan_next_loop(p) - 1};
    int64_t t0 = INT64_MAX;
    size_t i, m = 0;
    int rc = TD_OK;

    *skipped = 0;
    if (!order || !times) {
        free(order);
        free(times);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu exchanges", n);
    }
    for (i = 0; i < n; i++) {
        if (!(phases >> xs[i].phase & 1))
            continue;
        if (!xs[i].request) {
            ++*skipped;
            continue;
        }
        order[m++] = &xs[i];
        if (xs[i].t_sent_ns && xs[i].t_sent_ns < t0)
            t0 = xs[i].t_sent_ns;
    }
    g.most = most_in_flight(order, m, times);
    free(times);
    qsort(order, m, sizeof *order, by_stream);
    for (i = 0; i < m && !rc; i++) {
        follow(&g, order[i], speed);
        rc = add_recorded(p, order[i], &g, t0, speed, err);
    }
    free(order);
    if (!rc)
        rc = link_connections(p, err);
    return rc;
}

int td_plan_strip(struct td_plan *p, const struct td_api_server *server, struct td_error *err)
{
    size_t i;

    for (i = 0; i < p->n; i++) {
        struct td_buf b = TD_BUF_INIT((size_t)256 << 20);

        if (!td_api_strip_body(server, p->items[i].body, p->items[i].body_len, &b))
            continue;
        if (b.failed) {
            td_buf_release(&b);
            return td_fail(err, TD_ENOMEM, "out of memory for a request");
        }
        free(p->items[i].body);
        p->items[i].body_len = b.len;
        p->items[i].body = td_buf_detach(&b, NULL);
    }
    return TD_OK;
}
