/* judge_place.c - where in its output an op is over the limit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/judge_place.h"

#include <math.h>
#include <stdlib.h>

#define MAX_PERIOD 4096
#define CHANCE 1e-3             /* of a period that is none */

/* ---- rows or columns ------------------------------------------------------------------------- */

/* The part of each period that holds all bad ones: [*from, *to]. */
static void find_part(const bool *bad, int64_t n, int64_t period, int64_t *from, int64_t *to)
{
    int64_t i;

    *from = period;
    *to = -1;
    for (i = 0; i < n; i++) {
        const int64_t at = i % period;

        if (!bad[i])
            continue;
        *from = at < *from ? at : *from;
        *to = at > *to ? at : *to;
    }
}

/* About how likely it is that so many lie within this share of a line by chance. */
static double chance(int64_t n, double share)
{
    return (double)n * pow(share, (double)(n - 1));
}

static void try_period(const bool *bad, int64_t n, int64_t period, double *best,
                       struct td_judge_set *out)
{
    int64_t from, to;
    double share;

    find_part(bad, n, period, &from, &to);
    share = (double)(to - from + 1) / (double)period;
    if (share < *best && chance(out->bad, share) < CHANCE) {
        *best = share;
        out->period = period;
        out->from = from;
        out->to = to;
    }
}

void td_judge_set_find(const bool *bad, int64_t n, struct td_judge_set *out)
{
    double best;
    int64_t i, period;

    *out = (struct td_judge_set){.all = n, .first = -1, .last = -1};
    for (i = 0; i < n; i++)
        if (bad[i]) {
            out->bad++;
            out->first = out->first < 0 ? i : out->first;
            out->last = i;
        }
    if (out->bad < 2 || out->bad == n)
        return;
    best = (double)(out->last - out->first + 1) / (double)n;
    for (period = 2; period <= MAX_PERIOD && 2 * period <= n; period *= 2) {
        try_period(bad, n, period, &best, out);
        if (period >= 4 && 3 * period <= n) /* sizes of tiles such as 24, 48, 96 */
            try_period(bad, n, period / 2 * 3, &best, out);
    }
}

/* ---- an output ------------------------------------------------------------------------------- */

/* What is known of each row and column: its largest score, and the sum of squares. */
struct sums { double *row_max, *col_max, *row2, *col2; };

static void add_up(const struct td_op_ref *ref, const struct td_tensor *out, const void *image,
                   const struct td_judge_limits *lim, struct sums *s)
{
    int64_t i, j;

    for (i = 0; i < ref->rows; i++)
        for (j = 0; j < ref->cols; j++) {
            const double score = td_judge_score(ref, out, image, lim, i, j);

            s->row_max[i] = fmax(s->row_max[i], score);
            s->col_max[j] = fmax(s->col_max[j], score);
            s->row2[i] += score * score;
            s->col2[j] += score * score;
        }
}

static void find_set(const double *max, const double *sum2, int64_t n, int64_t of,
                     const struct td_judge_place *p, bool *bad, struct td_judge_set *out)
{
    int64_t i;

    for (i = 0; i < n; i++)
        bad[i] = p->of_rms ? sqrt(sum2[i] / (double)of) > p->limit / 2 : max[i] > p->limit;
    td_judge_set_find(bad, n, out);
}

int td_judge_place_find(const struct td_op_ref *ref, const struct td_tensor *out, const void *image,
                        const struct td_judge_limits *lim, double limit,
                        struct td_judge_place *place, struct td_error *err)
{
    const size_t rows = (size_t)ref->rows, cols = (size_t)ref->cols;
    double *memory = calloc(2 * (rows + cols) + 1, sizeof *memory);
    bool *bad = malloc((rows > cols ? rows : cols) + 1);
    struct sums s;
    size_t i;

    *place = (struct td_judge_place){.limit = limit, .of_rms = true};
    if (!memory || !bad) {
        free(memory);
        free(bad);
        return td_fail(err, TD_ENOMEM, "out of memory for %zu rows and %zu columns", rows, cols);
    }
    s = (struct sums){memory, memory + rows, memory + rows + cols, memory + 2 * rows + cols};
    add_up(ref, out, image, lim, &s);
    for (i = 0; i < rows && place->of_rms; i++)
        place->of_rms = !(s.row_max[i] > limit);
    find_set(s.row_max, s.row2, ref->rows, ref->cols, place, bad, &place->rows);
    find_set(s.col_max, s.col2, ref->cols, ref->rows, place, bad, &place->cols);
    free(memory);
    free(bad);
    return TD_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_set(cJSON *to, const char *key, const struct td_judge_set *s)
{
    cJSON *o = cJSON_AddObjectToObject(to, key);

    cJSON_AddNumberToObject(o, "bad", (double)s->bad);
    cJSON_AddNumberToObject(o, "all", (double)s->all);
    if (s->bad) {
        cJSON_AddNumberToObject(o, "first", (double)s->first);
        cJSON_AddNumberToObject(o, "last", (double)s->last);
    }
    if (s->period) {
        cJSON_AddNumberToObject(o, "period", (double)s->period);
        cJSON_AddNumberToObject(o, "from", (double)s->from);
        cJSON_AddNumberToObject(o, "to", (double)s->to);
    }
}

cJSON *td_judge_place_json(const struct td_judge_place *p)
{
    cJSON *o = cJSON_CreateObject();

    if (!o)
        return NULL;
    td_judge_add_num(o, "limit", p->limit);
    cJSON_AddStringToObject(o, "of", p->of_rms ? "rms" : "element");
    add_set(o, "rows", &p->rows);
    add_set(o, "cols", &p->cols);
    return o;
}
