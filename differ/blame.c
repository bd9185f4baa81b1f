/* blame.c - try every simple rule on the ops' attributes; the one that separates bad from good
 * best wins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A rule is one or two terms over: kernel, M, bits, group size, act-order, K, N, zero offset,
 * the last part of the layer's name, the layer, the dtype of W, and, for ggml's formats with
 * blocks of 32, the number of blocks in a row: their kernels handle several blocks at a time, so
 * a remainder is what may go wrong. Values and thresholds come from the data, multiples from a
 * short list (tails of tiles). The search is exhaustive: some hundred terms and ten thousand
 * pairs, over ops merged into rows. */
#include "differ/blame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F_KIND, F_M, F_BITS, F_GROUP, F_ACT, F_K, F_N, F_ZERO, F_PART, F_LAYER, F_WEIGHTS, F_BLOCKS,
       N_FEATURES };
/* rank: how plain a term over the feature is; smaller is plainer. K/32 has -3, so that "K/32 % 4
 * != 0" is plainer than "K = 576", and "K/32 % 8 != 0" is not. */
static const struct { const char *name, *attr; int rank; } FEATURES[N_FEATURES] = {
    [F_KIND] = {"kernel", NULL, 0},
    [F_M] = {"M", "m", 2},
    [F_BITS] = {"bits", "bits", 4},
    [F_GROUP] = {"group_size", "group_size", 6},
    [F_ACT] = {"act_order", "act_order", 8},
    [F_K] = {"K", "k", 10},
    [F_N] = {"N", "n", 12},
    [F_ZERO] = {"zero_offset", "zero_offset", 14},
    [F_PART] = {"layer", NULL, 16}, /* the last part of its name */
    [F_LAYER] = {"layer", NULL, 48},
    [F_WEIGHTS] = {"W", NULL, 1},
    [F_BLOCKS] = {"K/32", NULL, -3},
};
static const int64_t MULTIPLES[] = {512, 256, 128, 64, 32, 16, 8}, BLOCK_MULTIPLES[] = {2, 4, 8};
#define MAX_ROWS 20000

/* ---- terms ----------------------------------------------------------------------------------- */

static bool is_name(int feature)
{
    return feature == F_KIND || feature == F_PART || feature == F_LAYER || feature == F_WEIGHTS;
}

static bool is_size(int feature)
{
    return feature == F_M || feature == F_K || feature == F_N;
}

static bool term_holds(const struct td_term *t, const struct td_blame_row *r)
{
    int64_t v = r->value[t->feature];

    switch (t->rel) {
    case TD_IS:
        return v == t->value;
    case TD_IS_NOT:
        return v != t->value;
    case TD_AT_MOST:
        return v <= t->value;
    case TD_MORE_THAN:
        return v > t->value;
    case TD_MULTIPLE_OF:
        return v % t->value == 0;
    case TD_NOT_MULTIPLE_OF:
        return v % t->value != 0;
    }
    return false;
}

/* How plain a term is; smaller is plainer. M comes first: kernels choose their path by it. */
static int plainness(const struct td_term *t)
{
    static const int BY_RELATION[] = {0, 3, 1, 1, 5, 4};

    return FEATURES[t->feature].rank + BY_RELATION[t->rel] * 3 +
           (t->feature == F_BLOCKS ? (int)t->value - 4 : 0);
}

static int by_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The smallest `max` values of a feature; returns how many it writes. *more: how many others there
 * are. */
static size_t distinct_values(const struct td_blame_row *rows, size_t n, int f, int64_t *out,
                              size_t max, size_t *more)
{
    size_t i, k = 0, u = 0;
    int64_t *v = malloc((n + 1) * sizeof *v);

    *more = 0;
    if (!v)
        return 0;
    for (i = 0; i < n; i++)
        v[k++] = rows[i].value[f];
    qsort(v, k, sizeof *v, by_i64);
    for (i = 0; i < k; i++)
        if (i && v[i] == v[i - 1])
            continue;
        else if (u < max)
            out[u++] = v[i];
        else
            ++*more;
    free(v);
    return u;
}

/* untried: terms for which there was no room */
struct terms { struct td_term *term; int n; size_t untried; };

static void add_term(struct terms *terms, int f, enum td_relation rel, int64_t value)
{
    if (terms->n < TD_BLAME_MAX_TERMS)
        terms->term[terms->n++] = (struct td_term){f, rel, value};
    else
        terms->untried++;
}

static void make_terms(const struct td_blame_row *rows, size_t n, int n_features,
                       struct terms *terms)
{
    int f;
    size_t i, u, more;
    int64_t v[TD_BLAME_MAX_VALUES];

    for (f = 0; f < n_features; f++) {
        u = distinct_values(rows, n, f, v, TD_BLAME_MAX_VALUES, &more);
        if (u < 2)
            continue;
        if (f == F_BLOCKS) {
            for (i = 0; i < sizeof BLOCK_MULTIPLES / sizeof *BLOCK_MULTIPLES; i++)
                add_term(terms, f, TD_NOT_MULTIPLE_OF, BLOCK_MULTIPLES[i]);
            continue;
        }
        terms->untried += more * (is_name(f) ? 2 : 4); /* the relations below */
        for (i = 0; i < u; i++) {
            add_term(terms, f, TD_IS, v[i]);
            if (u > 2)
                add_term(terms, f, TD_IS_NOT, v[i]);
        }
        for (i = 1; !is_name(f) && u > 2 && i + 2 < u + 1; i++) {
            add_term(terms, f, TD_AT_MOST, v[i]);      /* at most v[0] is "is v[0]" */
            /* more than v[u - 2] is "is v[u - 1]" */
            add_term(terms, f, TD_MORE_THAN, v[i - 1]);
        }
        for (i = 0; is_size(f) && i < sizeof MULTIPLES / sizeof MULTIPLES[0]; i++) {
            add_term(terms, f, TD_NOT_MULTIPLE_OF, MULTIPLES[i]);
            add_term(terms, f, TD_MULTIPLE_OF, MULTIPLES[i]);
        }
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void count_hits(struct td_rule *rule, const struct td_blame_row *rows, size_t n)
{
    size_t i;
    int t;

    rule->bad_hit = rule->good_hit = 0;
    for (i = 0; i < n; i++) {
        for (t = 0; t < rule->n_terms && term_holds(&rule->term[t], &rows[i]); t++)
            ;
        if (t < rule->n_terms)
            continue;
        rule->bad_hit += rows[i].bad;
        rule->good_hit += rows[i].good;
    }
}

static size_t mistakes(const struct td_rule *r, size_t bad)
{
    return bad - r->bad_hit + r->good_hit;
}

static int rule_plainness(const struct td_rule *r)
{
    int t, sum = 0;

    for (t = 0; t < r->n_terms; t++)
        sum += plainness(&r->term[t]);
    return sum;
}

/* The best rule so far, and others that make as few mistakes with as many terms, the plainest
 * first. */
struct search { struct td_rule *best, *same; int *n_same; size_t bad; };

static void add_equal_rule(struct search *s, const struct td_rule *r)
{
    int i = *s->n_same < TD_BLAME_SAME ? (*s->n_same)++ : TD_BLAME_SAME - 1;

    if (i == TD_BLAME_SAME - 1 && s->same[i].n_terms &&
        rule_plainness(&s->same[i]) <= rule_plainness(r))
        return;
    for (; i > 0 && rule_plainness(&s->same[i - 1]) > rule_plainness(r); i--)
        s->same[i] = s->same[i - 1];
    s->same[i] = *r;
}

/* A rule with fewer mistakes replaces all others. A second term is accepted only if it saves
 * mistakes. */
static void consider_rule(struct search *s, const struct td_rule *r)
{
    const size_t now = mistakes(r, s->bad), least = mistakes(s->best, s->bad);

    if (now > least || (now == least && r->n_terms > s->best->n_terms))
        return;
    if (now < least) {
        *s->n_same = 0;
        memset(s->same, 0, TD_BLAME_SAME * sizeof *s->same);
        *s->best = *r;
    } else if (rule_plainness(r) < rule_plainness(s->best)) {
        add_equal_rule(s, s->best);
        *s->best = *r;
    } else {
        add_equal_rule(s, r);
    }
}

size_t td_blame_find(const struct td_blame_row *rows, size_t n, int n_features,
                     struct td_rule *best, struct td_rule *same, int *n_same)
{
    struct terms all = {.term = malloc(TD_BLAME_MAX_TERMS * sizeof *all.term)};
    const struct td_term *terms = all.term;
    struct search s = {.best = best, .same = same, .n_same = n_same};
    struct td_rule r;
    bool clean;
    size_t i;
    int a, b;

    *n_same = 0;
    memset(best, 0, sizeof *best);
    memset(same, 0, TD_BLAME_SAME * sizeof *same);
    count_hits(best, rows, n);
    for (i = 0; i < n; i++)
        s.bad += rows[i].bad;
    if (terms)
        make_terms(rows, n, n_features, &all);
    for (a = 0; a < all.n; a++) {
        r = (struct td_rule){.term = {terms[a]}, .n_terms = 1};
        count_hits(&r, rows, n);
        consider_rule(&s, &r);
    }
    clean = mistakes(best, s.bad) == 0;
    for (a = 0; a < all.n && !clean; a++)
        for (b = a + 1; b < all.n; b++) {
            r = (struct td_rule){.term = {terms[a], terms[b]}, .n_terms = 2};
            count_hits(&r, rows, n);
            consider_rule(&s, &r);
        }
    free(all.term);
    return all.untried;
}

/* ---- ops ------------------------------------------------------------------------------------- */

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
    row->value[F_LAYER] = number_of_name(names, op->layer);
}

/* Merge the judged ops into rows. *unseen: judged ops for which there was no row left. */
static size_t collect_rows(const struct td_judged_ops *s, struct names *names,
                           struct td_blame_row *rows, size_t *unseen)
{
    struct td_blame_row row;
    size_t i, j, n = 0;

    for (i = 0; i < s->n; i++) {
        const struct td_judged_op *op = &s->op[i];
        bool bad = op->result == TD_RESULT_WORSE;

        if (op->status == TD_OP_NONE || (!bad && op->result != TD_RESULT_OK))
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

static void describe_term(const struct td_term *t, const struct names *names,
                          const struct td_blame_row *rows, size_t n, char *out, size_t size)
{
    static const char *const RELATION[] = {"=", "!=", "<=", ">", "%", "%"};
    const char *name = FEATURES[t->feature].name;
    int64_t next = INT64_MAX;
    size_t i;

    for (i = 0; i < n; i++) {
        int64_t v = rows[i].value[t->feature];

        if (v > t->value && v < next)
            next = v;
    }
    if (is_name(t->feature))
        snprintf(out, size, "%s %s %s", name, RELATION[t->rel],
                 t->value < 0 ? "unknown" : names->name[t->value]);
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
        b->good += op->result == TD_RESULT_OK;
        if (op->result == TD_RESULT_WORSE && (!b->first || td_judged_op_runs_before(op, b->first)))
            b->first = op;
        if (op->result == TD_RESULT_WORSE && op->candidate.nan + op->candidate.inf > 0 &&
            (!b->first_nan || td_judged_op_runs_before(op, b->first_nan)))
            b->first_nan = op;
    }
    found = b->first != NULL;
    if (!found)
        goto done;
    n = collect_rows(s, &names, rows, &b->unseen);
    b->untried = td_blame_find(rows, n, N_FEATURES, &b->rule, b->same, &b->n_same);
    describe_rule(&b->rule, &names, rows, n, b->text, sizeof b->text);
    for (j = 0; j < b->n_same; j++)
        describe_rule(&b->same[j], &names, rows, n, b->same_text[j], sizeof b->same_text[j]);
done:
    free(rows);
    free(names.name);
    return found;
}

static const struct td_exchange *exchange_of(int64_t stream, const struct td_exchange *xs, size_t n)
{
    size_t i = 0;

    while (i < n && (int64_t)xs[i].stream != stream)
        i++;
    return stream >= 0 && i < n ? &xs[i] : NULL;
}

static void set_row(struct td_blame *b, const struct td_span *s, const struct td_exchange *x,
                    int64_t row)
{
    snprintf(b->prompt_id, sizeof b->prompt_id, "%s", x->prompt_id ? x->prompt_id : "");
    b->repeat = x->repeat;
    b->position = row < 0 || s->position < 0 || row - s->first_row > INT32_MAX - s->position
                      ? -1
                      : s->position + (int32_t)(row - s->first_row);
    b->decode = s->decode;
}

static void add_sharing(struct td_blame *b, const struct td_exchange *x)
{
    int i = 0;

    b->n_sharing++;
    while (i < b->n_among && strcmp(b->among[i], x->prompt_id ? x->prompt_id : "") != 0)
        i++;
    if (i == b->n_among && b->n_among < TD_BLAME_AMONG && x->prompt_id)
        b->among[b->n_among++] = x->prompt_id;
}

/* Does the op compute every row of its step? One of the last layer may compute only the rows
 * that give a token; then its row numbers are not the step's. */
static bool has_all_rows(const struct td_judged_op *op, const struct td_step *step)
{
    for (int32_t k = 0; k < step->n_spans; k++)
        if ((int64_t)step->spans[k].first_row + step->spans[k].n_rows > op->m)
            return false;
    return true;
}

void td_blame_place(struct td_blame *b, const struct td_step *steps, size_t n_steps,
                    const struct td_exchange *xs, size_t n_xs)
{
    const int64_t row =
        b->first && b->first->candidate.row_at >= 0 ? b->first->candidate.row_at : 0;
    const struct td_step *step = NULL;
    bool all;
    size_t i;
    int32_t k;

    for (i = 0; i < n_steps && b->first && b->first->step >= 0 && !step; i++)
        if (steps[i].step == b->first->step && steps[i].pid == b->first->pid &&
            steps[i].how != TD_HOW_UNKNOWN)
            step = &steps[i];
    if (!step)
        return;
    b->inferred = step->how == TD_HOW_INFERRED;
    all = has_all_rows(b->first, step);
    for (k = 0; k < step->n_spans; k++) {
        const struct td_span *s = &step->spans[k];
        const struct td_exchange *x = exchange_of(s->stream, xs, n_xs);
        const bool alone = step->n_spans == 1 && s->first_row >= 0;

        if (x && (all ? s->first_row >= 0 && row >= s->first_row && row - s->first_row < s->n_rows
                      : alone))
            set_row(b, s, x, all ? row : -1);
        else if (x && (!all || s->first_row < 0))
            add_sharing(b, x);
    }
}
