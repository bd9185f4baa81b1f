/* speed.c - rows of paired timings: collect pairs, decide a row.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed.h"
#include "common/out_of_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *td_speed_metric_name(enum td_speed_metric m)
{
    static const char *const NAMES[TD_N_METRICS] = {
        "ttft", "itl", "e2e", "throughput", "op, hot cache", "op, cold cache"};

    return NAMES[m];
}

bool td_speed_metric_is_op(enum td_speed_metric m)
{
    return m == TD_OP_HOT || m == TD_OP_COLD;
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct td_speed_row *td_speed_row(struct td_speed *s, enum td_speed_metric m, const char *label,
                                  bool total)
{
    struct td_speed_row *r;
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->row[i].metric == m && s->row[i].total == total &&
            strcmp(s->row[i].label, label) == 0)
            return &s->row[i];
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 32;
        struct td_speed_row *grown = realloc(s->row, cap * sizeof *grown);

        if (!grown)
            return NULL;
        s->row = grown;
        s->cap = cap;
    }
    r = &s->row[s->n];
    *r = (struct td_speed_row){.metric = m, .total = total, .label = td_strdup(label)};
    s->n += r->label != NULL;
    return r->label ? r : NULL;
}

int td_ratios_add(struct td_ratios *r, double base, double now, bool larger_is_faster)
{
    if (!(base > 0 && now > 0 && isfinite(base) && isfinite(now)))
        return TD_OK;
    if (r->n == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        double *a = realloc(r->log_ratio, cap * sizeof *a), *b, *c;

        if (a)
            r->log_ratio = a;
        b = realloc(r->base, cap * sizeof *b);
        if (b)
            r->base = b;
        c = realloc(r->now, cap * sizeof *c);
        if (c)
            r->now = c;
        if (!a || !b || !c)
            return TD_ENOMEM;
        r->cap = cap;
    }
    r->log_ratio[r->n] = larger_is_faster ? log(base / now) : log(now / base);
    r->base[r->n] = base;
    r->now[r->n++] = now;
    return TD_OK;
}

void td_speed_release(struct td_speed *s)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        free(s->row[i].label);
        free(s->row[i].pairs.log_ratio);
        free(s->row[i].pairs.base);
        free(s->row[i].pairs.now);
        td_shared_starts_release(&s->row[i].shared);
    }
    free(s->row);
    free(s->block);
    memset(s, 0, sizeof *s);
}

/* ---- deciding -------------------------------------------------------------------------------- */

void td_speed_decide(struct td_speed_row *row, double effect, double noise)
{
    const struct td_ratios *p = &row->pairs;
    struct td_interval *e = &row->effect;
    /* in a total some ops may be faster and others slower */
    bool agreed = row->ops == 0 || row->total ||
                  (row->ops >= 2 && row->starts_slower * 4 >= row->starts * 3 &&
                   expm1(row->least_op) > noise);

    *e = td_stat_hodges_lehmann(p->log_ratio, p->n, row->alpha);
    e->est = expm1(e->est);
    e->lo = expm1(e->lo);
    e->hi = expm1(e->hi);
    row->base = td_stat_median(p->base, p->n);
    row->now = td_stat_median(p->now, p->n);
    row->verdict = TD_NOT_JUDGED;
    row->faster = false;
    if (!e->reached)
        return;
    row->verdict = e->est > effect && e->lo > noise && agreed ? TD_REGRESSED : TD_PASS;
    row->faster = e->est < -effect && e->hi < -noise;
}
