/* blame.c - which rule separates the bad ops of a set from the good ones, in words, and the first
 * bad op.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/blame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/blame_terms.h"

static const struct { const char *name, *attr; } FEATURES[N_FEATURES] = {
    [F_KIND] = {"kernel", NULL},
    [F_M] = {"M", "m"},
    [F_BITS] = {"bits", "bits"},
    [F_GROUP] = {"group_size", "group_size"},
    [F_ACT] = {"act_order", "act_order"},
    [F_K] = {"K", "k"},
    [F_N] = {"N", "n"},
    [F_ZERO] = {"zero_offset", "zero_offset"},
    [F_PART] = {"layer", NULL}, /* the last part of its name */
    [F_NUMBER] = {"layer", NULL}, /* the first number in its name */
    [F_LAYER] = {"layer", NULL},
    [F_WEIGHTS] = {"W", NULL},
    [F_BLOCKS] = {"K/32", NULL},
};
#define MAX_ROWS 20000
#define MAX_LAYER_DIGITS 6

/* ---- rows ------------------------------------------------------------------------------------ */

/* Small numbers for names, in order of first use. */
struct names { const char **name; int n, cap; };

static int64_t number_of_name(struct names *names, const char *s)
{
    int i;

    if (!s)
        return -1;
    for (i = 0; i < names->n; i++)
        if (strcmp(names->name[i], s) == 0)
            return i;
    if (names->n == names->cap) {
        int cap = names->cap ? 2 * names->cap : 64;
        const char **more = realloc(names->name, (size_t)cap * sizeof *more);

        if (!more)
            return -1;
        names->name = more;
        names->cap = cap;
    }
    names->name[names->n++] = s;
    return i;
}

static const char *last_name(const char *layer)
{
    const char *dot = layer ? strrchr(layer, '.') : NULL;

    return dot ? dot + 1 : layer;
}

/* The number of the decoder layer: of "model.layers.2.mlp.down_proj", "blk.2.ffn_up.weight" and
 * "Qcur-2". Only a part of the name that is a number as a whole is one, and the first, for experts
 * have numbers too. -1: the name has none. */
static int64_t layer_number(const char *layer)
{
    const char *p = layer;

    while (p && *p) {
        const size_t digits = strspn(p, "0123456789");

        if (digits && digits <= MAX_LAYER_DIGITS && (p == layer || strchr(".-", p[-1])) &&
            (!p[digits] || p[digits] == '.'))
            return strtoll(p, NULL, 10);
        p += strcspn(p, ".-");
        p += *p != '\0';
    }
    return -1;
}

/* Q4_0, Q5_1 ...: ggml's K-quants have blocks of 256, other dtypes none. */
static bool has_blocks_of_32(const char *weights)
{
    return weights && weights[0] == 'Q' && strchr(weights, '_') &&
           (strchr(weights, '_')[1] == '0' || strchr(weights, '_')[1] == '1');
}

static void fill_row(struct names *names, const struct td_judged_op *op, struct td_blame_row *row)
{
    int f;

    memset(row, 0, sizeof *row);
    for (f = 0; f < N_FEATURES; f++)
        if (FEATURES[f].attr)
            row->value[f] = td_judged_op_attr(op, FEATURES[f].attr, 0);
    row->value[F_WEIGHTS] = number_of_name(names, op->weights);
    row->value[F_BLOCKS] = has_blocks_of_32(op->weights) ? row->value[F_K] / 32 : 0;
    row->value[F_KIND] = number_of_name(names, op->kind);
    row->value[F_PART] = number_of_name(names, last_name(op->layer));
    row->value[F_NUMBER] = layer_number(op->layer);
    row->value[F_LAYER] = number_of_name(names, op->layer);
}

/* Are all bad ops those of groups that are biased? */
static bool is_bias_alone(const struct td_judged_ops *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (s->op[i].status != TD_OP_NONE && s->op[i].result == TD_RESULT_WORSE && !s->op[i].bias)
            return false;
    return true;
}

/* Is nothing known of the op that tells a rule? */
static bool is_unsure(const struct td_judged_op *op, bool bias_alone)
{
    return bias_alone && op->bias_unsure && op->result == TD_RESULT_OK;
}

/* Merge the judged ops into rows. *unseen: judged ops for which there was no row left. */
static size_t collect_rows(const struct td_judged_ops *s, bool bias_alone, struct names *names,
                           struct td_blame_row *rows, size_t *unseen)
{
    struct td_blame_row row;
    size_t i, j, n = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_judged_op *op = &s->op[i];
        bool bad = op->result == TD_RESULT_WORSE;

        if (op->status == TD_OP_NONE || (!bad && op->result != TD_RESULT_OK) || is_unsure(op, bias_alone))
            continue;
        fill_row(names, op, &row);
        for (j = n; j > 0 && memcmp(rows[j - 1].value, row.value, sizeof row.value) != 0; j--)
            ;
        if (j == 0) {
            if (n == MAX_ROWS) {
                ++*unseen;
                continue;
            }
            rows[n] = row;
            j = ++n;
        }
        rows[j - 1].bad += bad;
        rows[j - 1].good += !bad;
    }
    return n;
}

/* Does it hold for nearly all bad ops and hardly any good one, with so many ops on either side that
 * it is no accident of the few that were recorded? */
static bool has_evidence(const struct td_rule *r, const struct td_blame_row *rows, size_t n)
{
    const size_t enough = TD_BLAME_EVIDENCE * (size_t)r->n_terms;
    size_t bad = 0, good = 0, spared, i;

    for (i = 0; i < n; i++) {
        bad += rows[i].bad;
        good += rows[i].good;
    }
    spared = good - r->good_hit;
    return r->bad_hit >= enough && spared >= enough && 10 * r->bad_hit >= 9 * bad &&
           10 * spared >= 9 * good;
}

/* ---- words ---------------------------------------------------------------------------------- */

static void describe_term(const struct td_term *t, const struct names *names,
                          const struct td_blame_row *rows, size_t n, char *out, size_t size)
{
    static const char *const RELATION[] = {"=", "!=", "<=", ">", "%", "%", "%"};
    const char *name = FEATURES[t->feature].name;
    int64_t next = INT64_MAX;
    size_t i;

    for (i = 0; i < n; i++) {
        int64_t v = rows[i].value[t->feature];

        if (v > t->value && v < next)
            next = v;
    }
    if (td_blame_is_name(t->feature))
        snprintf(out, size, "%s %s %s", name, RELATION[t->rel],
                 t->value < 0 ? "unknown" : names->name[t->value]);
    else if (t->rel == TD_REST_AT_LEAST && t->rest + 1 == t->value)
        snprintf(out, size, "%s %% %lld = %lld", name, (long long)t->value, (long long)t->rest);
    else if (t->rel == TD_REST_AT_LEAST)
        snprintf(out, size, "%s %% %lld >= %lld", name, (long long)t->value, (long long)t->rest);
    else if (t->rel == TD_MULTIPLE_OF)
        snprintf(out, size, "%s %% %lld = 0", name, (long long)t->value);
    else if (t->rel == TD_NOT_MULTIPLE_OF)
        snprintf(out, size, "%s %% %lld != 0", name, (long long)t->value);
    /* the true limit lies in between */
    else if (t->rel == TD_AT_MOST && next != INT64_MAX && next > t->value + 1)
        snprintf(out, size, "%s <= %lld (next seen: %lld)", name, (long long)t->value,
                 (long long)next);
    else if (t->rel == TD_MORE_THAN && next != INT64_MAX && next > t->value + 1)
        snprintf(out, size, "%s >= %lld (next below: %lld)", name, (long long)next,
                 (long long)t->value);
    else if (t->rel == TD_MORE_THAN) /* as people say it: from the smallest that was seen */
        snprintf(out, size, "%s >= %lld", name, (long long)t->value + 1);
    else
        snprintf(out, size, "%s %s %lld", name, RELATION[t->rel], (long long)t->value);
}

static void describe_rule(const struct td_rule *r, const struct names *names,
                          const struct td_blame_row *rows, size_t n, char *out, size_t size)
{
    char term[TD_BLAME_TERMS][80];
    int t;

    for (t = 0; t < r->n_terms; t++)
        describe_term(&r->term[t], names, rows, n, term[t], sizeof term[t]);
    if (r->n_terms == 0)
        snprintf(out, size, "every op");
    else
        snprintf(out, size, "%s%s%s", term[0], r->n_terms > 1 ? " and " : "",
                 r->n_terms > 1 ? term[1] : "");
}

bool td_blame_ops(const struct td_judged_ops *s, struct td_blame *b)
{
    struct names names = {0};
    struct td_blame_row *rows = malloc(MAX_ROWS * sizeof *rows);
    size_t i, n;
    int j;
    const bool bias_alone = is_bias_alone(s);
    bool found = false;

    memset(b, 0, sizeof *b);
    b->repeat = b->position = -1;
    if (!rows)
        goto done;
    for (i = 0; i < s->n; i++) {
        const struct td_judged_op *op = &s->op[i];

        if (op->status == TD_OP_NONE)
            continue;
        b->bad += op->result == TD_RESULT_WORSE;
        b->unsure += is_unsure(op, bias_alone);
        b->good += op->result == TD_RESULT_OK && !is_unsure(op, bias_alone);
        if (op->result == TD_RESULT_WORSE && (!b->first || td_judged_op_runs_before(op, b->first)))
            b->first = op;
        if (op->result == TD_RESULT_WORSE && op->candidate.nan + op->candidate.inf > 0 &&
            (!b->first_nan || td_judged_op_runs_before(op, b->first_nan)))
            b->first_nan = op;
    }
    found = b->first != NULL;
    if (!found)
        goto done;
    n = collect_rows(s, bias_alone, &names, rows, &b->unseen);
    b->untried = td_blame_find(rows, n, N_FEATURES, &b->rule, b->same, &b->n_same);
    if (!has_evidence(&b->rule, rows, n)) {
        b->rule = (struct td_rule){.bad_hit = b->bad, .good_hit = b->good};
        b->n_same = 0;
    }
    describe_rule(&b->rule, &names, rows, n, b->text, sizeof b->text);
    for (j = 0; j < b->n_same; j++)
        describe_rule(&b->same[j], &names, rows, n, b->same_text[j], sizeof b->same_text[j]);
done:
    free(rows);
    free(names.name);
    return found;
}
