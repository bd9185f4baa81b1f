/* smoke_ids.c - token ids that cannot be those of the answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/smoke_ids.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/tokens.h"

enum { FEW = 16 };

static bool counts(const struct td_exchange *x)
{
    return x->phase != TD_PHASE_WARMUP && !x->error && x->token_ids;
}

/* ---- an id by itself ------------------------------------------------------------------------- */

static bool is_impossible(int32_t id, int64_t vocab)
{
    return id < -1 || id == INT32_MAX || (vocab > 0 && id >= vocab);
}

static bool find_impossible(const struct td_exchange *x, int64_t vocab, char *what, size_t size)
{
    int32_t i = 0;

    while (i < x->n_tokens && !is_impossible(x->token_ids[i], vocab))
        i++;
    if (i == x->n_tokens)
        return false;
    if (vocab > 0 && x->token_ids[i] > 0)
        snprintf(what, size, "token %d has the id %d, and the model has %lld tokens", i, x->token_ids[i],
                 (long long)vocab);
    else
        snprintf(what, size, "token %d has the id %d, which no token has", i, x->token_ids[i]);
    return true;
}

/* ---- an id and its alternatives -------------------------------------------------------------- */

/* Is the chosen token among the ones listed for its place? The row counts if all of it has ids. */
static bool is_listed(const struct td_exchange *x, int32_t i, bool *known)
{
    const struct td_alt *row = x->top + (size_t)i * (size_t)x->top_k;
    bool listed = false;
    int32_t k, n = 0;

    for (k = 0; k < x->top_k; k++) {
        listed |= row[k].id == x->token_ids[i];
        n += row[k].id >= 0;
    }
    *known = n > 0 && x->token_ids[i] >= 0;
    for (k = 0; k < n; k++)
        *known &= row[k].id >= 0; /* rows are padded at their end */
    return listed;
}

struct tally { int64_t wrong, all; const struct td_exchange *first; int32_t id; };

static void count_listed(const struct td_exchange *x, struct tally *t)
{
    int32_t i;

    for (i = 0; x->top && x->top_k > 0 && i < x->n_tokens && td_tokens_greedy(x); i++) {
        bool known, listed = is_listed(x, i, &known);

        t->all += known;
        if (!known || listed)
            continue;
        t->wrong++;
        t->id = t->first ? t->id : x->token_ids[i];
        t->first = t->first ? t->first : x;
    }
}

/* ---- an id and its texts --------------------------------------------------------------------- */

struct spelt { int32_t id; const char *text; size_t len, order; const struct td_exchange *x; };

/* The visible part of a text that is ASCII; false: it is none, or there is nothing to see. */
static bool visible_ascii(const char *text, struct spelt *out)
{
    size_t i, n;

    text += strspn(text, " \t\r\n");
    for (n = strlen(text); n && strchr(" \t\r\n", text[n - 1]);)
        n--;
    for (i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7E)
            return false;
    out->text = text;
    out->len = n;
    return n > 0;
}

static int by_id(const void *a, const void *b)
{
    const struct spelt *p = a, *q = b;

    if (p->id != q->id)
        return p->id < q->id ? -1 : 1;
    return (p->order > q->order) - (p->order < q->order);
}

static bool same_text(const struct spelt *a, const struct spelt *b)
{
    return a->len == b->len && !memcmp(a->text, b->text, a->len);
}

static void count_spelt(const struct td_exchange *xs, size_t n_xs, struct tally *t)
{
    struct spelt *all;
    size_t i, n = 0, most = 0, first = 0;
    int32_t k;

    for (i = 0; i < n_xs; i++)
        most += counts(&xs[i]) && xs[i].token_text ? (size_t)xs[i].n_tokens : 0;
    all = most ? calloc(most, sizeof *all) : NULL;
    for (i = 0; all && i < n_xs; i++)
        for (k = 0; counts(&xs[i]) && xs[i].token_text && k < xs[i].n_tokens; k++) {
            struct spelt s = {.id = xs[i].token_ids[k], .order = n, .x = &xs[i]};

            if (s.id >= 0 && xs[i].token_text[k] && visible_ascii(xs[i].token_text[k], &s))
                all[n++] = s;
        }
    if (n)
        qsort(all, n, sizeof *all, by_id);
    for (i = 1; i < n; i++) {
        first = all[i].id == all[first].id ? first : i;
        if (first == i)
            continue;
        t->all++;
        if (same_text(&all[first], &all[i]))
            continue;
        t->wrong++;
        t->id = t->first ? t->id : all[i].id;
        t->first = t->first ? t->first : all[i].x;
    }
    free(all);
}

static bool is_half(const struct tally *t)
{
    return t->wrong >= FEW && 2 * t->wrong >= t->all;
}

const struct td_exchange *td_smoke_wrong_ids(const struct td_exchange *xs, size_t n, int64_t vocab,
                                             char *what, size_t size)
{
    struct tally listed = {0}, spelt = {0};
    size_t i;

    for (i = 0; i < n; i++) {
        if (!counts(&xs[i]))
            continue;
        if (find_impossible(&xs[i], vocab, what, size))
            return &xs[i];
        count_listed(&xs[i], &listed);
    }
    if (is_half(&listed)) {
        snprintf(what, size, "%lld of %lld token ids are not among the likeliest that the server lists for "
                 "their places (first: %d)", (long long)listed.wrong, (long long)listed.all, listed.id);
        return listed.first;
    }
    count_spelt(xs, n, &spelt);
    if (!is_half(&spelt))
        return NULL;
    snprintf(what, size, "%lld of %lld tokens have another text than an earlier one of the same id "
             "(first: %d)", (long long)spelt.wrong, (long long)spelt.all, spelt.id);
    return spelt.first;
}
