/* blame_find.c - try every simple rule on the ops' attributes; the one that separates bad from good
 * best wins.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A rule is one or two terms over: kernel, M, bits, group size, act-order, K, N, zero offset, the
 * last part of the layer's name, the layer's number, the layer, the dtype of W, and, for ggml's
 * formats with blocks of 32, the number of blocks in a row: their kernels handle several blocks at
 * a time, so a remainder is what may go wrong. Values and thresholds come from the data, remainders
 * from a short list (tails of tiles). The search is exhaustive: some hundred terms and ten thousand
 * pairs, over ops merged into rows. */
#include <stdlib.h>
#include <string.h>

#include "differ/blame.h"
#include "differ/blame_terms.h"

/* How plain a term over the feature is; smaller is plainer. K/32 has -3, so that "K/32 % 4 != 0" is
 * plainer than "K = 576", and "K/32 % 8 != 0" is not. */
static const int RANKS[N_FEATURES] = {
    [F_KIND] = 0, [F_M] = 2, [F_BITS] = 4, [F_GROUP] = 6, [F_ACT] = 8, [F_K] = 10, [F_N] = 12,
    [F_ZERO] = 14, [F_PART] = 16, [F_NUMBER] = 30, [F_LAYER] = 48, [F_WEIGHTS] = 1, [F_BLOCKS] = -3};
static const int64_t TILES[] = {2, 4, 8, 16, 32, 64, 128, 256, 512}, BLOCK_MULTIPLES[] = {2, 4, 8};
#define MAX_REST_TILE 128

/* ---- terms ----------------------------------------------------------------------------------- */

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
        return v <= t->value && !(t->feature == F_NUMBER && v < 0); /* a name without a number */
    case TD_MORE_THAN:
        return v > t->value;
    case TD_MULTIPLE_OF:
        return v % t->value == 0;
    case TD_NOT_MULTIPLE_OF:
        return v % t->value != 0;
    case TD_REST_AT_LEAST:
        return v % t->value >= t->rest;
    }
    return false;
}

/* How plain a term is; smaller is plainer. M comes first: kernels choose their path by it. "M != 28"
 * names a size that happened to be recorded, so that remainders, which kernels do have, are plainer;
 * values and limits are plainer than both. */
static int plainness(const struct td_term *t)
{
    static const int BY_RELATION[] = {0, 3, 1, 1, 5, 4, 5};
    const int relation = t->rel == TD_IS_NOT && is_size(t->feature) ? 6 : BY_RELATION[t->rel];

    return RANKS[t->feature] + relation * 3 + (t->feature == F_BLOCKS ? (int)t->value - 4 : 0);
}

static int by_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The smallest `max` values of a feature; returns how many it writes. *more: how many others there
 * are. Names without a number have no value. */
static size_t distinct_values(const struct td_blame_row *rows, size_t n, int f, int64_t *out,
                              size_t max, size_t *more)
{
    size_t i, k = 0, u = 0;
    int64_t *v = malloc((n + 1) * sizeof *v);

    *more = 0;
    if (!v)
        return 0;
    for (i = 0; i < n; i++)
        if (f != F_NUMBER || rows[i].value[f] >= 0)
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
        terms->term[terms->n++] = (struct td_term){.feature = f, .rel = rel, .value = value};
    else
        terms->untried++;
}

/* A remainder that all rows have, or none, tells nothing. */
static void add_remainder(struct terms *terms, const struct td_term *t,
                          const struct td_blame_row *rows, size_t n)
{
    size_t i, holds = 0;

    for (i = 0; i < n; i++)
        holds += term_holds(t, &rows[i]);
    if (holds == 0 || holds == n)
        return;
    if (terms->n < TD_BLAME_MAX_TERMS)
        terms->term[terms->n++] = *t;
    else
        terms->untried++;
}

/* Tails of tiles: those that are left over, and of these the part beyond 2, beyond half a tile, and
 * the last. Of equal ones the smallest tile comes first. */
static void add_remainders(struct terms *terms, int f, const struct td_blame_row *rows, size_t n)
{
    struct td_term t = {.feature = f};
    size_t i;

    for (i = 0; i < sizeof TILES / sizeof *TILES; i++) {
        const int64_t tile = t.value = TILES[i], rests[] = {2, tile / 2, tile - 1};
        int r;

        t.rel = TD_NOT_MULTIPLE_OF;
        add_remainder(terms, &t, rows, n);
        t.rel = TD_MULTIPLE_OF;
        add_remainder(terms, &t, rows, n);
        t.rel = TD_REST_AT_LEAST;
        for (r = 0; r < 3 && tile > 2 && tile <= MAX_REST_TILE; r++) {
            t.rest = rests[r];
            if (!r || rests[r] > rests[r - 1])
                add_remainder(terms, &t, rows, n);
        }
        t.rest = 0;
    }
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
        if (is_size(f)) /* first: they are few, and values many */
            add_remainders(terms, f, rows, n);
        terms->untried += more * (td_blame_is_name(f) ? 2 : f == F_NUMBER ? 3 : 4); /* the relations below */
        for (i = 0; i < u; i++) {
            add_term(terms, f, TD_IS, v[i]);
            if (u > 2 && f != F_NUMBER) /* nothing goes wrong in all layers but the third */
                add_term(terms, f, TD_IS_NOT, v[i]);
        }
        for (i = 1; !td_blame_is_name(f) && u > 2 && i + 2 < u + 1; i++) {
            add_term(terms, f, TD_AT_MOST, v[i]);      /* at most v[0] is "is v[0]" */
            /* more than v[u - 2] is "is v[u - 1]" */
            add_term(terms, f, TD_MORE_THAN, v[i - 1]);
        }
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool rule_holds(const struct td_rule *rule, const struct td_blame_row *row)
{
    int t = 0;

    while (t < rule->n_terms && term_holds(&rule->term[t], row))
        t++;
    return t == rule->n_terms;
}

static void count_hits(struct td_rule *rule, const struct td_blame_row *rows, size_t n)
{
    size_t i;

    rule->bad_hit = rule->good_hit = 0;
    for (i = 0; i < n; i++)
        if (rule_holds(rule, &rows[i])) {
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
struct search {
    struct td_rule *best, *same; int *n_same;
    size_t bad;
    const struct td_blame_row *rows; size_t n;
};

static unsigned quantities(const struct td_rule *r)
{
    unsigned bits = 0;
    int t;

    for (t = 0; t < r->n_terms; t++)
        bits |= 1U << r->term[t].feature;
    return bits;
}

/* "M >= 2" and "M != 1": do both select the same ops by the same quantities? */
static bool says_the_same(const struct search *s, const struct td_rule *a, const struct td_rule *b)
{
    size_t i = 0;

    if (quantities(a) != quantities(b) || a->bad_hit != b->bad_hit || a->good_hit != b->good_hit)
        return false;
    while (i < s->n && rule_holds(a, &s->rows[i]) == rule_holds(b, &s->rows[i]))
        i++;
    return i == s->n;
}

static void remove_equal_rule(struct search *s, int i)
{
    for (; i + 1 < *s->n_same; i++)
        s->same[i] = s->same[i + 1];
    s->same[--*s->n_same] = (struct td_rule){0};
}

/* Of rules that say the same the plainest is kept. */
static void add_equal_rule(struct search *s, const struct td_rule *r)
{
    const int plain = rule_plainness(r);
    int i;

    for (i = 0; i < *s->n_same; i++) {
        if (!says_the_same(s, &s->same[i], r))
            continue;
        if (rule_plainness(&s->same[i]) <= plain)
            return;
        remove_equal_rule(s, i--);
    }
    if (*s->n_same == TD_BLAME_SAME && rule_plainness(&s->same[TD_BLAME_SAME - 1]) <= plain)
        return;
    i = *s->n_same < TD_BLAME_SAME ? (*s->n_same)++ : TD_BLAME_SAME - 1;
    for (; i > 0 && rule_plainness(&s->same[i - 1]) > plain; i--)
        s->same[i] = s->same[i - 1];
    s->same[i] = *r;
}

static void replace_best(struct search *s, const struct td_rule *r)
{
    const struct td_rule old = *s->best;
    int i;

    *s->best = *r;
    for (i = *s->n_same - 1; i >= 0; i--)
        if (says_the_same(s, &s->same[i], r))
            remove_equal_rule(s, i);
    if (!says_the_same(s, &old, r))
        add_equal_rule(s, &old);
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
        replace_best(s, r);
    } else if (!says_the_same(s, s->best, r)) {
        add_equal_rule(s, r);
    }
}

size_t td_blame_find(const struct td_blame_row *rows, size_t n, int n_features,
                     struct td_rule *best, struct td_rule *same, int *n_same)
{
    struct terms all = {.term = malloc(TD_BLAME_MAX_TERMS * sizeof *all.term)};
    const struct td_term *terms = all.term;
    struct search s = {.best = best, .same = same, .n_same = n_same, .rows = rows, .n = n};
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
