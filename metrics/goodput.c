/* goodput.c - which exchanges kept given limits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/goodput.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Our keys, and the names that the tools use. */
static const struct { const char *name; enum td_metric_term term; } NAMES[] = {
    {"ttft", TD_TERM_TTFT}, {"time_to_first_token", TD_TERM_TTFT},
    {"itl", TD_TERM_ITL},   {"inter_token_latency", TD_TERM_ITL},
    {"icl", TD_TERM_ICL},   {"tpot", TD_TERM_TPOT},
    {"ntpot", TD_TERM_NTPOT}, {"e2e", TD_TERM_E2E},
    {"e2el", TD_TERM_E2E},  {"request_latency", TD_TERM_E2E}};

/* Which of its terms does a dialect set limits for? */
static bool has_limit(enum td_dialect d, enum td_metric_term t)
{
    switch (d) {
    case TD_DIALECT_TAPEDECK:
        return t == TD_TERM_TTFT || t == TD_TERM_ITL || t == TD_TERM_TPOT || t == TD_TERM_E2E;
    case TD_DIALECT_VLLM:
    case TD_DIALECT_GUIDELLM:
        return t == TD_TERM_TTFT || t == TD_TERM_TPOT || t == TD_TERM_E2E;
    case TD_DIALECT_AIPERF:
        return t == TD_TERM_TTFT || t == TD_TERM_ITL || t == TD_TERM_E2E;
    default:
        return t != TD_TERM_ICL;
    }
}

static bool find_term(const char *name, size_t n, enum td_dialect d, enum td_metric_term *t)
{
    size_t i;

    for (i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strlen(NAMES[i].name) == n && !strncmp(NAMES[i].name, name, n) && has_limit(d, NAMES[i].term)) {
            *t = NAMES[i].term;
            return true;
        }
    return false;
}

/* "200ms" -> 0.2; NaN: no such limit. *end: behind it. */
static double read_limit(const char *text, const char **end)
{
    static const struct { const char *unit; double per_s; } UNITS[] = {{"ms", 1e3}, {"us", 1e6}, {"s", 1}, {"", 1e3}};
    char *unit;
    const double v = strtod(text, &unit);
    size_t i, n;

    for (i = 0; unit != text && v >= 0 && v < INFINITY && i < sizeof UNITS / sizeof *UNITS; i++) {
        n = strlen(UNITS[i].unit);
        *end = unit + n;
        if (!strncmp(unit, UNITS[i].unit, n) && (!**end || **end == ','))
            return v / UNITS[i].per_s;
    }
    return NAN;
}

/* "TTFT, TPOT or E2E", as keys. */
static const char *names_of(enum td_dialect d, char out[80])
{
    int t, n = 0;

    *out = '\0';
    for (t = 0; t < TD_N_TERMS; t++)
        if (has_limit(d, (enum td_metric_term)t)) {
            strcat(strcat(out, n++ ? ", " : ""), td_term_key((enum td_metric_term)t));
        }
    return out;
}

int td_goodput_parse(const char *text, enum td_dialect d, struct td_goodput *out, struct td_error *err)
{
    const char *end = text;
    char names[80];
    int t;

    out->asked = true;
    for (t = 0; t < TD_N_TERMS; t++)
        out->limit[t] = NAN;
    for (;; text = end + 1) {
        const size_t n = strcspn(text, ":,");
        enum td_metric_term term = TD_TERM_TTFT;

        if (!find_term(text, n, d, &term))
            return td_fail(err, TD_EINVAL, "--goodput %.40s: in terms of %s there are limits for %s", text, td_dialect_name(d),
                           names_of(d, names));
        out->limit[term] = text[n] == ':' ? read_limit(text + n + 1, &end) : NAN;
        if (isnan(out->limit[term]))
            return td_fail(err, TD_EINVAL, "--goodput %.40s: a limit is due, such as ttft:200ms", text);
        if (!*end)
            return TD_OK;
    }
}

/* The value that a limit is compared with. */
static double value_of(enum td_dialect d, const struct td_measured *x, enum td_metric_term t)
{
    if (d == TD_DIALECT_GUIDELLM && t == TD_TERM_TPOT)
        return x->span[TD_TERM_ITL];
    return x->span[t];
}

int td_goodput_of(const struct td_goodput *g, enum td_dialect d, const struct td_measured *x)
{
    const bool keeps = d == TD_DIALECT_TAPEDECK || d == TD_DIALECT_VLLM;
    int t, good = 1;

    if (x->error)
        return 0;
    for (t = 0; t < TD_N_TERMS; t++) {
        const double v = isnan(g->limit[t]) ? NAN : value_of(d, x, (enum td_metric_term)t);

        if (isnan(g->limit[t]))
            continue;
        if (isnan(v) && d == TD_DIALECT_GUIDELLM)
            return -1;
        if (isnan(v) && (!keeps || t == TD_TERM_TTFT || t == TD_TERM_E2E))
            good = 0;
        if (v > g->limit[t])
            good = 0;
    }
    return good;
}
