/* rescore.c - how likely do baseline and candidate find the same texts, token by token?
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/rescore.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wire/scores.h"

#define CLAMPED (-9999.0f) /* what vLLM writes for -inf, and its endpoint generate for NaN */

/* One scored exchange and where it comes from. */
struct scoring { const struct td_exchange *x; enum td_role role; int round; };

struct scorings { struct scoring *s; size_t n; };

/* ---- two scorings of one text ---------------------------------------------------------------- */

static bool is_sound(float logprob)
{
    return isfinite(logprob) && logprob > CLAMPED;
}

static void add_position(struct td_rescore_part *p, const struct td_exchange *b,
                         const struct td_exchange *x, int32_t i)
{
    double d = (double)b->scores[i] - (double)x->scores[i];
    bool tops =
        b->scores_top && x->scores_top && b->scores_top[i].id >= 0 && x->scores_top[i].id >= 0;

    p->n++;
    p->sum_base -= (double)b->scores[i];
    p->sum += d;
    p->sum_sq += d * d;
    p->sum_abs += fabs(d);
    p->top_known += tops;
    p->top_changed += tops && b->scores_top[i].id != x->scores_top[i].id;
}

/* Compare x with b and add to the two parts. r NULL: noise, whose worst place is not kept. */
static void compare_scorings(const struct td_exchange *b, const struct td_exchange *x,
                             struct td_rescore_part *answer, struct td_rescore_part *prompt,
                             struct td_rescore *r)
{
    int32_t i;

    for (i = 0; i < b->n_scores; i++) {
        double delta = (double)x->scores[i] - (double)b->scores[i];

        if (!is_sound(b->scores[i]))
            continue;
        if (!is_sound(x->scores[i])) {
            if (r && r->not_finite++ == 0)
                r->first_not_finite = (struct td_rescore_place){b, x, i, NAN};
            continue;
        }
        add_position(i >= b->scored_from ? answer : prompt, b, x, i);
        if (r && (!r->worst.base || fabs(delta) > fabs(r->worst.delta)))
            r->worst = (struct td_rescore_place){b, x, i, delta};
    }
}

static void join_parts(struct td_rescore_part *to, const struct td_rescore_part *p)
{
    to->tokens += p->tokens;
    to->n += p->n;
    to->sum_base += p->sum_base;
    to->sum += p->sum;
    to->sum_sq += p->sum_sq;
    to->sum_abs += p->sum_abs;
    to->top_known += p->top_known;
    to->top_changed += p->top_changed;
}

/* Compute the means from the sums. */
static void finish_part(struct td_rescore_part *p)
{
    double n = (double)p->n;

    p->base_nll = p->n ? p->sum_base / n : NAN;
    p->shift = p->n ? p->sum / n : 0;
    p->mean_abs = p->n ? p->sum_abs / n : NAN;
    p->error = p->tokens > 1
                   ? sqrt(fmax(p->sum_sq - p->sum * p->sum / n, 0) / n / (double)(p->tokens - 1))
                   : 0;
}

static bool same_text(const struct td_exchange *a, const struct td_exchange *b)
{
    return a->scored_from == b->scored_from && a->n_prompt_ids == b->n_prompt_ids &&
           a->n_scores == b->n_scores &&
           !memcmp(a->prompt_ids, b->prompt_ids, (size_t)a->n_prompt_ids * sizeof *a->prompt_ids);
}

/* ---- all texts ------------------------------------------------------------------------------- */

static const char *id_of(const struct td_exchange *x)
{
    return x->prompt_id ? x->prompt_id : "";
}

/* By prompt, then role, round and repeat. */
static int by_text(const void *a, const void *b)
{
    const struct scoring *p = a, *q = b;
    int c = strcmp(id_of(p->x), id_of(q->x));

    if (!c)
        c = (int)p->role - (int)q->role;
    if (!c)
        c = p->round - q->round;
    if (!c)
        c = (p->x->repeat > q->x->repeat) - (p->x->repeat < q->x->repeat);
    return c ? c : (p->x->stream > q->x->stream) - (p->x->stream < q->x->stream);
}

static int gather_scorings(const struct td_side *sides, size_t n, struct scorings *out,
                           struct td_error *err)
{
    size_t i, j, total = 0;

    for (i = 0; i < n; i++)
        total += sides[i].n_xs;
    out->n = 0;
    out->s = calloc(total + 1, sizeof *out->s);
    if (!out->s)
        return td_fail(err, TD_ENOMEM, "no memory for %zu exchanges", total);
    for (i = 0; i < n; i++)
        for (j = 0; j < sides[i].n_xs; j++)
            if (td_scores_role(&sides[i].xs[j]))
                out->s[out->n++] = (struct scoring){&sides[i].xs[j], sides[i].role, sides[i].round};
    qsort(out->s, out->n, sizeof *out->s, by_text);
    return TD_OK;
}

/* The baseline's scoring that x is compared with: of the same repeat, else its first. NULL: it
 * has none.
 *   s : [n], all scorings of one prompt */
static const struct td_exchange *find_counterpart(const struct scoring *s, size_t n,
                                                  const struct td_exchange *x)
{
    const struct td_exchange *first = NULL;
    size_t i;

    for (i = 0; i < n; i++) {
        if (s[i].role != TD_BASE || td_scores_outcome(s[i].x) != TD_SCORED)
            continue;
        if (s[i].x->repeat == x->repeat && s[i].x != x)
            return s[i].x;
        if (!first)
            first = s[i].x;
    }
    return first;
}

static struct td_rescore_noise *noise_of(struct td_rescore *r, enum td_role role, int round)
{
    size_t i;

    for (i = 0; i < r->n_noise; i++)
        if (r->noise[i].role == role && r->noise[i].round == round)
            return &r->noise[i];
    r->noise[r->n_noise] = (struct td_rescore_noise){.role = role, .round = round};
    return &r->noise[r->n_noise++];
}

/* Compare a scoring that is not the candidate's with b. */
static void add_noise(struct td_rescore *r, const struct scoring *s, const struct td_exchange *b)
{
    struct td_rescore_part answer = {0}, prompt = {0};
    struct td_rescore_noise *z;

    if (td_scores_outcome(s->x) != TD_SCORED || s->x == b || !same_text(s->x, b))
        return;
    compare_scorings(b, s->x, &answer, &prompt, NULL);
    answer.tokens = answer.n;
    prompt.tokens = prompt.n;
    z = noise_of(r, s->role, s->round);
    z->texts++;
    join_parts(&z->answer, &answer);
    join_parts(&z->prompt, &prompt);
    finish_part(&answer);
    z->text_max = fmax(z->text_max, fabs(answer.shift));
}

static void count_failure(enum td_scored o, const struct td_exchange *x, struct td_rescore *r)
{
    const bool absent = o == TD_SCORED_REFUSED || o == TD_SCORED_UNSEEN;
    const struct td_exchange **first = o == TD_SCORED_NAN ? &r->nan
                                       : absent           ? &r->refused
                                                          : &r->failed;

    *(o == TD_SCORED_NAN ? &r->n_nan : absent ? &r->n_refused : &r->n_failed) += 1;
    if (!*first)
        *first = x;
}

static void note_unscored(struct td_rescore *r, const struct td_rescore_unscored *u)
{
    if (u->nan || u->failed || u->not_finite)
        r->unscored[r->n_unscored++] = *u;
}

/* s : [n], all scorings of one prompt */
static void measure_text(struct td_rescore *r, const struct scoring *s, size_t n)
{
    struct td_rescore_text t = {.prompt_id = id_of(s->x),
                                .category = s->x->category ? s->x->category : ""};
    struct td_rescore_unscored u = {.prompt_id = id_of(s->x), .not_finite = r->not_finite};
    size_t i, compared = 0, others = 0;

    if (!find_counterpart(s, n, s->x))
        return;
    r->base_texts++;
    for (i = 0; i < n; i++) {
        const struct td_exchange *x = s[i].x, *b = find_counterpart(s, n, x);
        enum td_scored o = td_scores_outcome(x);

        if (s[i].role == TD_BASE)
            b = s->x; /* a later scoring is compared with the first */
        if (s[i].role != TD_NEW) {
            add_noise(r, &s[i], b);
            continue;
        }
        r->asked++;
        u.asked++;
        u.nan += o == TD_SCORED_NAN;
        u.failed += o == TD_SCORED_FAILED;
        if (o != TD_SCORED) {
            count_failure(o, x, r);
        } else if (!same_text(x, b)) {
            others++;
        } else {
            compare_scorings(b, x, &t.answer, &t.prompt, r);
            if (!compared++) {
                t.answer.tokens = t.answer.n;
                t.prompt.tokens = t.prompt.n;
            }
        }
    }
    u.not_finite = r->not_finite - u.not_finite;
    note_unscored(r, &u);
    r->other += others;
    r->missing += !compared && !others;
    if (!compared)
        return;
    join_parts(&r->answer, &t.answer);
    join_parts(&r->prompt, &t.prompt);
    finish_part(&t.answer);
    finish_part(&t.prompt);
    r->text[r->n++] = t;
}

static void finish_all(struct td_rescore *r)
{
    size_t i;

    finish_part(&r->answer);
    finish_part(&r->prompt);
    for (i = 0; i < r->n_noise; i++) {
        struct td_rescore_noise *z = &r->noise[i];

        finish_part(&z->answer);
        finish_part(&z->prompt);
        r->noise_answer = fmax(r->noise_answer, fabs(z->answer.shift));
        r->noise_prompt = fmax(r->noise_prompt, fabs(z->prompt.shift));
        r->noise_text = fmax(r->noise_text, z->text_max);
        r->noise_distance = fmax(r->noise_distance, z->answer.mean_abs); /* fmax(x, NaN) is x */
    }
}

int td_rescore_measure(const struct td_side *sides, size_t n_sides, struct td_rescore *r,
                       struct td_error *err)
{
    struct scorings all;
    size_t i, j;
    int rc = gather_scorings(sides, n_sides, &all, err);

    memset(r, 0, sizeof *r);
    if (rc)
        return rc;
    r->text = calloc(all.n + 1, sizeof *r->text);
    r->noise = calloc(n_sides + 1, sizeof *r->noise);
    r->unscored = calloc(all.n + 1, sizeof *r->unscored);
    if (!r->text || !r->noise || !r->unscored)
        rc = td_fail(err, TD_ENOMEM, "no memory to compare %zu scorings", all.n);
    for (i = 0; i < all.n && !rc; i = j) {
        for (j = i + 1; j < all.n && !strcmp(id_of(all.s[j].x), id_of(all.s[i].x));)
            j++;
        measure_text(r, all.s + i, j - i);
    }
    if (!rc)
        finish_all(r);
    free(all.s);
    if (rc)
        td_rescore_release(r);
    return rc;
}

void td_rescore_release(struct td_rescore *r)
{
    free(r->text);
    free(r->noise);
    free(r->unscored);
    memset(r, 0, sizeof *r);
}
