/* same_tokens.c - answers of the same tokens: are their text and their end the same, too?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/same_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number_words.h"
#include "differ/stats.h"
#include "differ/tokens.h"

const char *td_unlike_name(enum td_unlike u)
{
    static const char *const NAMES[TD_N_UNLIKE] = {"none", "text", "parts", "end"};

    return NAMES[u];
}

/* ---- two answers ----------------------------------------------------------------------------- */

/* lost : what was taken off the end: bytes of a glyph that was cut, and U+FFFD */
struct bytes { const char *p; size_t n, lost; };

#define LOST_APART_MAX 3 /* bytes of a glyph that was cut, each of which may stand as one U+FFFD */

/* Bytes at the end that begin a glyph of UTF-8 and do not complete it. */
static size_t cut_glyph(const struct bytes *b)
{
    size_t i;

    for (i = 1; i <= 3 && i <= b->n; i++) {
        const unsigned char c = (unsigned char)b->p[b->n - i];
        const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;

        if ((c & 0xC0) != 0x80)
            return length > i ? i : 0;
    }
    return 0;
}

/* The text without a blank at its beginning, and without a glyph that was cut at its end, which some
 * servers hold back and others replace by U+FFFD.
 * How many U+FFFD stand there is kept: no cut glyph makes many. */
static struct bytes trimmed(const struct td_exchange *x)
{
    static const char REPLACEMENT[] = "\xEF\xBF\xBD";
    struct bytes b = {x->text ? x->text : "", x->text ? x->text_len : 0, 0};

    if (b.n && *b.p == ' ') {
        b.p++;
        b.n--;
    }
    b.lost = cut_glyph(&b);
    b.n -= b.lost;
    for (; b.n >= 3 && !memcmp(b.p + b.n - 3, REPLACEMENT, 3); b.lost++)
        b.n -= 3;
    return b;
}

static bool has_stop_strings(const struct td_exchange *x)
{
    const cJSON *sampling = td_json_get(x->request, "sampling_params"),
                *stop = td_json_get(sampling ? sampling : x->request, "stop");

    return cJSON_IsArray(stop) ? cJSON_GetArraySize(stop) > 0
                               : cJSON_IsString(stop) && *stop->valuestring;
}

static bool same_text(const struct td_exchange *a, const struct td_exchange *b)
{
    enum { STOP_MAX = 64 }; /* bytes: a stop string, and the rest of the token that it ends in */
    const struct bytes p = trimmed(a), q = trimmed(b);
    const size_t n = p.n < q.n ? p.n : q.n, more = p.n + q.n - 2 * n;

    if ((p.lost > q.lost ? p.lost - q.lost : q.lost - p.lost) > LOST_APART_MAX)
        return false;
    return !memcmp(p.p, q.p, n) && (!more || (more <= STOP_MAX && n && has_stop_strings(a)));
}

static bool has_part(const struct td_exchange *x, const char *name)
{
    return td_json_get_i64(x->extra, name, 0) > 0;
}

enum td_unlike td_same_tokens_compare(const struct td_exchange *a, const struct td_exchange *b)
{
    if (!same_text(a, b))
        return TD_OTHER_TEXT;
    if (has_part(a, "tool_calls") != has_part(b, "tool_calls") ||
        has_part(a, "reasoning_bytes") != has_part(b, "reasoning_bytes"))
        return TD_OTHER_PARTS;
    /* one that is not given is absent, and no other end */
    return a->finish_reason && b->finish_reason && strcmp(a->finish_reason, b->finish_reason)
               ? TD_OTHER_END
               : TD_ALIKE;
}

/* ---- one side -------------------------------------------------------------------------------- */

/* Compare an answer with those of the baseline's that have its tokens, but refs[skip]. False: there
 * is none. */
static bool compare_answer(const struct td_xref *r, const struct td_xref *refs, size_t n,
                           size_t skip, struct td_unlike_answer *out)
{
    bool any = false;
    size_t i;

    for (i = 0; i < n; i++) {
        const struct td_xref *b = &refs[i];
        enum td_unlike what;

        if (i == skip || b->x->error || b->masked || !td_tokens_compare(b->x, r->x).equal)
            continue;
        what = td_same_tokens_compare(b->x, r->x);
        if (!any || what == TD_ALIKE)
            *out = (struct td_unlike_answer){.good = b->x, .bad = r->x, .round = r->round,
                                             .what = what};
        any = true;
        if (what == TD_ALIKE)
            break;
    }
    return any;
}

/* Compare all answers of one role (of one of its rounds; -1: of all). Unlike ones of the candidate
 * are listed. */
static void compare_side(const struct td_groups *g, enum td_role role, int round,
                         struct td_same_tokens *s)
{
    size_t i, j;

    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->group[i].n[role]; j++) {
            const struct td_prompt_group *p = &g->group[i];
            const struct td_xref *r = &p->by_role[role][j];
            struct td_unlike_answer one;

            if (r->x->error || r->masked || (round >= 0 && r->round != round) ||
                !compare_answer(r, p->by_role[TD_BASE], p->n[TD_BASE],
                                role == TD_BASE ? j : p->n[TD_BASE], &one))
                continue;
            s->answers++;
            s->of[one.what]++;
            one.group = p;
            if (one.what != TD_ALIKE && s->list)
                s->list[s->n++] = one;
        }
}

static int count_rounds_of(const struct td_groups *g, enum td_role role)
{
    int last = -1;
    size_t i, j;

    for (i = 0; i < g->n; i++)
        for (j = 0; j < g->group[i].n[role]; j++)
            if (g->group[i].by_role[role][j].round > last)
                last = g->group[i].by_role[role][j].round;
    return last + 1;
}

/* What noise does as often is not beyond it. */
static void excuse(struct td_same_tokens *s, const struct td_same_tokens *noise,
                   const struct td_policy *policy)
{
    int u;

    for (u = TD_OTHER_TEXT; u < TD_N_UNLIKE; u++)
        if (noise->of[u] && td_stat_share_larger_p(s->of[u], s->answers, noise->of[u],
                                                   noise->answers) >= policy->tokens_alpha)
            s->beyond[u] = false;
}

int td_same_tokens_measure(const struct td_groups *g, const struct td_policy *policy,
                           struct td_same_tokens *out, struct td_error *err)
{
    static const enum td_role NOISES[] = {TD_BASE, TD_LIVE, TD_CALIBRATE};
    size_t i, n = 0;
    int round, u;

    memset(out, 0, sizeof *out);
    for (i = 0; i < g->n; i++)
        n += g->group[i].n[TD_NEW];
    out->list = calloc(n + 1, sizeof *out->list);
    if (!out->list)
        return td_fail(err, TD_ENOMEM, "no memory to compare %zu answers", n);
    compare_side(g, TD_NEW, -1, out);
    for (u = TD_OTHER_TEXT; u < TD_N_UNLIKE; u++)
        out->beyond[u] = out->of[u] > 0;
    for (i = 0; i < sizeof NOISES / sizeof NOISES[0] && out->n; i++)
        for (round = 0; round < count_rounds_of(g, NOISES[i]); round++) {
            struct td_same_tokens noise = {0};

            compare_side(g, NOISES[i], round, &noise);
            excuse(out, &noise, policy);
        }
    return TD_OK;
}

void td_same_tokens_release(struct td_same_tokens *s)
{
    free(s->list);
    memset(s, 0, sizeof *s);
}

/* ---- words ----------------------------------------------------------------------------------- */

bool td_same_tokens_found(const struct td_same_tokens *s)
{
    return s->beyond[TD_OTHER_TEXT] || s->beyond[TD_OTHER_PARTS] || s->beyond[TD_OTHER_END];
}

static const struct td_unlike_answer *first_of(const struct td_same_tokens *s, enum td_unlike what)
{
    size_t i = 0;

    while (i + 1 < s->n && s->list[i].what != what)
        i++;
    return &s->list[i];
}

void td_same_tokens_words(const struct td_same_tokens *s, struct td_buf *out)
{
    const char *between = "";
    const struct td_unlike_answer *f;

    if (s->beyond[TD_OTHER_TEXT]) {
        f = first_of(s, TD_OTHER_TEXT);
        td_buf_addf(out,
                    "%zu of %zu answer%s %s the same tokens and another text (the detokenizer or "
                    "the template); first: %s",
                    s->of[TD_OTHER_TEXT], s->answers, td_plural((int64_t)s->answers),
                    td_has((int64_t)s->of[TD_OTHER_TEXT]), f->group->prompt_id);
        between = "; ";
    }
    if (s->beyond[TD_OTHER_PARTS]) {
        f = first_of(s, TD_OTHER_PARTS);
        td_buf_addf(out,
                    "%s%zu of %zu answer%s %s the same tokens and other thoughts or calls of tools "
                    "(their parser); first: %s",
                    between, s->of[TD_OTHER_PARTS], s->answers, td_plural((int64_t)s->answers),
                    td_has((int64_t)s->of[TD_OTHER_PARTS]), f->group->prompt_id);
        between = "; ";
    }
    if (s->beyond[TD_OTHER_END]) {
        f = first_of(s, TD_OTHER_END);
        td_buf_addf(out,
                    "%s%zu of %zu answer%s %s the same tokens and another end (finish_reason %.40s, "
                    "was %.40s); first: %s",
                    between, s->of[TD_OTHER_END], s->answers, td_plural((int64_t)s->answers),
                    td_has((int64_t)s->of[TD_OTHER_END]), f->bad->finish_reason,
                    f->good->finish_reason, f->group->prompt_id);
    }
}
