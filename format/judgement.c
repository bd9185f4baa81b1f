/* judgement.c - are the numbers of a judgement such as a judge can find?
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/judgement.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "format/slices.h"

#define MOST_RUNS 1000000
#define MOST_NS 1e18
#define MOST_TURNS ((int64_t)1 << 53)
#define MOST_FLOOR 1e9         /* as of the policy's */
#define ROUNDED (1 + 1e-9) /* a mean of squares may round beyond the largest of them */

/* One judgement while it is looked at. where: the member that holds what is looked at, "candidate". */
struct look {
    const struct td_op *op;
    const char *where;
    int64_t elements;             /* of the output, an upper bound */
    struct td_error *err;
};

static int __attribute__((format(printf, 4, 5)))
unfit(const struct look *k, const char *key, const cJSON *value, const char *due, ...)
{
    struct td_buf text = TD_BUF_INIT((size_t)1 << 20);
    char words[160];
    struct td_jw w;
    va_list ap;
    int rc;

    va_start(ap, due);
    vsnprintf(words, sizeof words, due, ap);
    va_end(ap);
    td_jw_init(&w, &text, false);
    if (value)
        td_jw_value(&w, NULL, value);
    rc = td_fail(k->err, TD_ECORRUPT, "op %lld: its judgement is damaged: \"%s%s%s\" is %.40s, but %s",
                 (long long)k->op->op, k->where, *k->where ? "." : "", key,
                 value ? text.failed ? "too long" : td_buf_str(&text) : "not there", words);
    td_buf_release(&text);
    return rc;
}

/* ---- single numbers -------------------------------------------------------------------------- */

/* Read an integer from `least` to `most`; an absent one is `missing`. */
static int read_count(const struct look *k, const cJSON *obj, const char *key, int64_t least,
                      int64_t most, int64_t missing, int64_t *out)
{
    const cJSON *v = td_json_get(obj, key);
    const bool is_whole = !cJSON_IsNumber(v) || v->valuedouble == floor(v->valuedouble);

    *out = v ? td_json_i64(v, INT64_MIN) : missing;
    if (!v || (is_whole && *out >= least && *out <= most))
        return TD_OK;
    return unfit(k, key, v, "a count from %lld to %lld is due", (long long)least, (long long)most);
}

static bool is_infinity(const cJSON *v)
{
    return cJSON_IsString(v) && !strcmp(v->valuestring, "Infinity");
}

/* An error: a finite number from 0 on, or "Infinity". A number that no double can hold (1e400) is
 * none. */
static bool is_error(const cJSON *v)
{
    return is_infinity(v) || (cJSON_IsNumber(v) && v->valuedouble >= 0 && isfinite(v->valuedouble));
}

/* An error that may be absent.
 *   finite : no element is off without bound, so that this number is finite too */
static int check_error(const struct look *k, const cJSON *obj, const char *key, bool finite)
{
    const cJSON *v = td_json_get(obj, key);

    if (v && !is_error(v))
        return unfit(k, key, v, "a number from 0 on, or \"Infinity\", is due");
    return v && finite && is_infinity(v) ? unfit(k, key, v, "the worst element's error is finite") : TD_OK;
}

/* ---- the error of one output ----------------------------------------------------------------- */

/* A worst row or column, [i, rms], or tile, [i, j, rms]. */
static int check_spot(const struct look *k, const cJSON *e, const char *key, int size, double score)
{
    const cJSON *spot = td_json_get(e, key), *v;
    int i = 0;

    if (!cJSON_IsArray(spot) || cJSON_GetArraySize(spot) != size)
        return unfit(k, key, spot, "a list of %d numbers is due", size);
    cJSON_ArrayForEach(v, spot) {
        if (++i == size)
            break;
        if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble) || v->valuedouble < 0 ||
            v->valuedouble > (double)k->elements)
            return unfit(k, key, spot, "a place in the output is due");
    }
    if (!is_error(v))
        return unfit(k, key, spot, "its error must be a number from 0 on, or \"Infinity\"");
    if (td_json_num(v, NAN) > score * ROUNDED)
        return unfit(k, key, spot, "the error of its worst element is %g", score);
    return TD_OK;
}

static int check_counts(const struct look *k, const cJSON *e, double score)
{
    int64_t nan, inf, zero, nonzero, nonfinite;
    int rc;

    if ((rc = read_count(k, e, "nan", 0, k->elements, 0, &nan)) ||
        (rc = read_count(k, e, "inf", 0, k->elements - nan, 0, &inf)) ||
        (rc = read_count(k, e, "zero", 0, k->elements - nan - inf, 0, &zero)) ||
        (rc = read_count(k, e, "ref_nonzero", 0, k->elements, 0, &nonzero)) ||
        (rc = read_count(k, e, "ref_nonfinite", 0, k->elements, -1, &nonfinite)))
        return rc;
    if (isfinite(score) && nonfinite >= 0 && nan > nonfinite)
        return unfit(k, "nan", td_json_get(e, "nan"),
                     "the score %g allows %lld NaN, as many as the reference has", score,
                     (long long)nonfinite);
    return TD_OK;
}

static int check_runs(const struct look *k, const cJSON *e)
{
    int64_t repeats, unstable, odd, worst;
    int rc;

    if ((rc = read_count(k, e, "repeats", 1, MOST_RUNS, 1, &repeats)) ||
        (rc = read_count(k, e, "unstable", 0, repeats > 1 ? k->elements : 0, 0, &unstable)) ||
        (rc = read_count(k, e, "worst_run", 0, unstable ? repeats - 1 : 0, 0, &worst)) ||
        (rc = read_count(k, e, "odd_runs", 0, repeats - 1, -1, &odd)))
        return rc;
    if (odd >= 0 && (odd > 0) != (unstable > 0))
        return unfit(k, "odd_runs", td_json_get(e, "odd_runs"), "%lld elements differ between the runs",
                     (long long)unstable);
    if (!unstable && td_json_get_num(e, "spread", 0) > 0)
        return unfit(k, "spread", td_json_get(e, "spread"), "no element differs between the runs");
    return check_error(k, e, "spread", false);
}

/* Sums over slices, if there are any, must be such as errors up to the score have. */
static int check_slices(const struct look *k, const cJSON *judge, const cJSON *e)
{
    const cJSON *sums = td_json_get(e, "slices");
    const double u_out = td_json_get_num(td_json_get(judge, "limits"), "u_out", 0);
    struct td_slices s;
    const char *fault;

    if (!sums)
        return TD_OK;
    if (!td_slices_read(sums, &s))
        return unfit(k, "slices", sums, "sums over slices are due");
    if (k->op->has_out && s.rows * s.cols != k->elements)
        return unfit(k, "slices", sums, "sums over %lld elements are due", (long long)k->elements);
    fault = td_slices_fault(&s, td_json_get_num(e, "score", INFINITY), u_out);
    return fault ? unfit(k, "slices", sums, "of errors %s", fault) : TD_OK;
}

static int check_side(struct look *k, const cJSON *judge, const char *side)
{
    const cJSON *e = td_json_get(judge, side);
    double score;
    int rc;

    k->where = "";
    if (!e || cJSON_IsNull(e))
        return TD_OK;
    if (!cJSON_IsObject(e))
        return unfit(k, side, e, "an object or null is due");
    k->where = side;
    if ((rc = check_slices(k, judge, e)))
        return rc;
    if (!td_json_get(e, "score") && td_json_get_str(e, "crash", NULL))
        return TD_OK; /* nothing came back */
    if (!is_error(td_json_get(e, "score")))
        return unfit(k, "score", td_json_get(e, "score"), "a number from 0 on, or \"Infinity\", is due");
    score = td_json_get_num(e, "score", NAN);
    if ((rc = check_spot(k, e, "worst_row", 2, score)) || (rc = check_spot(k, e, "worst_col", 2, score)) ||
        (rc = check_spot(k, e, "worst_tile", 3, score)) || (rc = check_counts(k, e, score)) ||
        (rc = check_error(k, e, "rel_l2", isfinite(score))) ||
        (rc = check_error(k, e, "r0_rel_l2", isfinite(score))) ||
        (rc = check_error(k, e, "max_abs", isfinite(score))))
        return rc;
    return check_runs(k, e);
}

/* ---- where it is over its limit -------------------------------------------------------------- */

static int check_lines(struct look *k, const cJSON *over, const char *what)
{
    const cJSON *l = td_json_get(over, what);
    int64_t all, bad, first, last, period, from, to;
    int rc;

    k->where = what;
    if ((rc = read_count(k, l, "all", 0, k->elements, 0, &all)) ||
        (rc = read_count(k, l, "bad", 0, all, 0, &bad)) ||
        (rc = read_count(k, l, "last", 0, all - 1, -1, &last)) ||
        (rc = read_count(k, l, "first", 0, last, -1, &first)) ||
        (rc = read_count(k, l, "period", 1, all, 0, &period)) ||
        (rc = read_count(k, l, "to", 0, period - 1, -1, &to)) ||
        (rc = read_count(k, l, "from", 0, to, -1, &from)))
        return rc;
    return TD_OK;
}

static int check_over(struct look *k, const cJSON *judge)
{
    const cJSON *over = td_json_get(judge, "over");
    int rc;

    k->where = "over";
    if (!over)
        return TD_OK;
    if (!strcmp(td_json_get_str(over, "of", ""), "element") &&
        td_json_get_num(td_json_get(judge, "candidate"), "score", INFINITY) * ROUNDED < td_json_get_num(over, "limit", 0))
        return unfit(k, "limit", td_json_get(over, "limit"), "no error of the candidate is above it");
    if ((rc = check_error(k, over, "limit", false)) || (rc = check_lines(k, over, "rows")))
        return rc;
    return check_lines(k, over, "cols");
}

/* ---- timings --------------------------------------------------------------------------------- */

static bool is_time(const cJSON *v)
{
    return cJSON_IsNumber(v) && v->valuedouble > 0 && v->valuedouble <= MOST_NS;
}

static int check_pairs(const struct look *k, const cJSON *speed, const char *key)
{
    const cJSON *pairs = td_json_get(speed, key), *p;

    if (!pairs)
        return TD_OK;
    if (!cJSON_IsArray(pairs))
        return unfit(k, key, pairs, "a list of pairs is due");
    cJSON_ArrayForEach(p, pairs)
        if (cJSON_GetArraySize(p) != 2 || !is_time(p->child) || !is_time(p->child->next))
            return unfit(k, key, p, "two times in ns are due");
    return TD_OK;
}

/* [least, mean, most] */
static int check_reading(const struct look *k, const cJSON *s, const char *key)
{
    const cJSON *all = td_json_get(s, key), *a = all ? all->child : NULL, *b = a ? a->next : NULL,
                *c = b ? b->next : NULL;

    if (!all)
        return TD_OK;
    if (cJSON_GetArraySize(all) != 3 || !cJSON_IsNumber(a) || !cJSON_IsNumber(b) || !cJSON_IsNumber(c) ||
        !isfinite(a->valuedouble) || !isfinite(c->valuedouble) || a->valuedouble > b->valuedouble * ROUNDED ||
        b->valuedouble > c->valuedouble * ROUNDED)
        return unfit(k, key, all, "the least, the mean and the most are due");
    return TD_OK;
}

static int check_device(struct look *k, const cJSON *device)
{
    static const char *const SIDES[] = {"baseline", "candidate"}, *const WHEN[] = {"before", "after"},
                             *const READ[] = {"sm_mhz", "mem_mhz", "temp_c", "power_w"};
    int64_t samples, throttled;
    size_t i, j;
    int rc = TD_OK;

    for (i = 0; i < 4; i++) {
        const cJSON *s = td_json_get(td_json_get(device, SIDES[i / 2]), WHEN[i % 2]);

        k->where = WHEN[i % 2];
        for (j = 0; s && j < sizeof READ / sizeof *READ && !rc; j++)
            rc = check_reading(k, s, READ[j]);
        if (rc || (rc = read_count(k, s, "samples", 0, INT32_MAX, 0, &samples)) ||
            (rc = read_count(k, s, "throttled", 0, samples, 0, &throttled)))
            return rc;
    }
    return TD_OK;
}

static int check_speed(struct look *k, const cJSON *judge)
{
    const cJSON *speed = td_json_get(judge, "speed");
    int64_t n;
    int rc;

    k->where = "";
    if (speed && !cJSON_IsObject(speed))
        return unfit(k, "speed", speed, "an object is due");
    k->where = "speed";
    if ((rc = check_pairs(k, speed, "hot")) || (rc = check_pairs(k, speed, "cold")) ||
        (rc = read_count(k, speed, "starts", 1, MOST_RUNS, 1, &n)) ||
        (rc = read_count(k, speed, "runs_hot", 0, INT32_MAX, 0, &n)) ||
        (rc = read_count(k, speed, "runs_cold", 0, INT32_MAX, 0, &n)))
        return rc;
    return check_device(k, td_json_get(speed, "device"));
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int check_limits(struct look *k, const cJSON *judge)
{
    static const struct { const char *name; double most; } LIMITS[] = {
        {"u_out", 1}, {"u_acc", 1}, {"tiny", 1}, {"floor", MOST_FLOOR}};
    const cJSON *limits = td_json_get(judge, "limits"), *v;
    size_t i;

    k->where = "limits";
    for (i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++) {
        v = td_json_get(limits, LIMITS[i].name);
        if (v && !(cJSON_IsNumber(v) && v->valuedouble > 0 && v->valuedouble <= LIMITS[i].most))
            return unfit(k, LIMITS[i].name, v, "a number above 0, at most %g, is due", LIMITS[i].most);
    }
    return TD_OK;
}

/* What was compared with other outputs: elements that are equal, and how far the others are. */
static int check_compared(struct look *k, const cJSON *judge)
{
    const cJSON *departs = td_json_get(judge, "baseline_departs");
    int64_t total, n;
    int rc;

    k->where = "";
    if ((rc = read_count(k, judge, "total", 0, k->elements, 0, &total)) ||
        (rc = read_count(k, judge, "equal", 0, total, 0, &n)) ||
        (rc = read_count(k, judge, "baseline_equal", 0, k->elements, 0, &n)) ||
        (rc = read_count(k, judge, "unstable", 0, k->elements, 0, &n)))
        return rc;
    if (departs && !is_error(departs) && !(cJSON_IsString(departs) && !strcmp(departs->valuestring, "NaN")))
        return unfit(k, "baseline_departs", departs, "a number from 0 on, \"Infinity\" or \"NaN\" is due");
    rc = check_error(k, judge, "departs", false);
    return rc ? rc : check_error(k, judge, "format_cost", false);
}

/* Only nodes of ggml have kinds without a reference; such an op was compared, and has no error. Any other one is
 * judged by its candidate's error. */
static int check_reference(struct look *k, const cJSON *judge)
{
    const cJSON *without = td_json_get(judge, "reference");

    k->where = "";
    if (!without || td_json_get_bool(judge, "reference", true))
        return TD_OK;
    if (strncmp(k->op->kind ? k->op->kind : "", "ggml_", 5) != 0)
        return unfit(k, "reference", without, "its kind has a reference");
    return td_json_get(td_json_get(judge, "candidate"), "score")
               ? unfit(k, "reference", without, "the error of its candidate stands there") : TD_OK;
}

static int64_t count_elements(const struct td_op *op)
{
    int64_t n = 1;
    int i;

    if (!op->has_out)
        return INT64_MAX / 4; /* no output was recorded: each count is possible */
    for (i = 0; i < op->out.ndim; i++)
        n *= op->out.shape[i];
    return n;
}

/* Products of the blocks of sums in halves. */
static int check_blocks(struct look *k, const cJSON *j)
{
    const cJSON *refused = td_json_get(j, "halves_refused");
    int64_t n;
    int rc;

    k->where = "halves";
    if ((rc = read_count(k, td_json_get(j, "halves"), "block", 1, INT32_MAX, 1, &n)))
        return rc;
    k->where = "halves_refused";
    if ((rc = read_count(k, refused, "baseline", 0, INT32_MAX, 0, &n)))
        return rc;
    return read_count(k, refused, "candidate", 0, INT32_MAX, 0, &n);
}

int td_judgement_check(const struct td_op *op, struct td_error *err)
{
    struct look k = {op, "", count_elements(op), err};
    const cJSON *j = op->judge;
    int64_t turn;
    int rc;

    if (!j)
        return op->origin ? td_fail(err, TD_ECORRUPT, "op %lld: its judgement is damaged: a replayed op has none",
                                    (long long)op->op)
                          : TD_OK;
    if ((rc = check_side(&k, j, "recorded")) || (rc = check_side(&k, j, "baseline")) ||
        (rc = check_side(&k, j, "candidate")) || (rc = check_side(&k, j, "halves")) || (rc = check_over(&k, j)) || (rc = check_limits(&k, j)) ||
        (rc = check_reference(&k, j)) || (rc = check_compared(&k, j)))
        return rc;
    if ((rc = check_blocks(&k, j)))
        return rc;
    k.where = "";
    if ((rc = read_count(&k, j, "turn", 0, MOST_TURNS, -1, &turn)))
        return rc;
    return check_speed(&k, j);
}
