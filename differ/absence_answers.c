/* absence_answers.c - the counts behind absence.def that are of answers and of scorings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A request is known by its prompt, its phase and its repeat. One that is there twice counts once,
 * so that it cannot stand for another one that is missing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/number_words.h"
#include "differ/absence_type.h"
#include "differ/end_marks.h"
#include "format/manifest.h"
#include "wire/scores.h"
#include "wire/send.h"

/* ---- requests, each once --------------------------------------------------------------------- */

/* Requests by prompt, phase and repeat. */
struct requests {
    const struct td_exchange **x; size_t n;
    const struct td_exchange *twice; /* the first that was there more than once; NULL: none */
};
typedef bool wanted_fn(const struct td_exchange *x, const struct td_planned *p);

static const char *name_of(const struct td_exchange *x)
{
    return x->prompt_id ? x->prompt_id : "";
}

static int by_prompt_and_phase(const struct td_exchange *x, const struct td_exchange *y)
{
    int c = strcmp(name_of(x), name_of(y));

    return c ? c : (int)x->phase - (int)y->phase;
}

/* Of two with one key, the answered one comes first. */
static int by_key(const void *a, const void *b)
{
    const struct td_exchange *x = *(const struct td_exchange *const *)a,
                             *y = *(const struct td_exchange *const *)b;
    int c = by_prompt_and_phase(x, y);

    if (!c)
        c = (x->repeat > y->repeat) - (x->repeat < y->repeat);
    return c ? c : (x->error != NULL) - (y->error != NULL);
}

/* The requests of a fixture that are wanted, each once. Out of memory there are none, and so
 * nothing passes. The caller frees x. */
static struct requests gather(const struct td_side *side, wanted_fn *wanted,
                              const struct td_planned *p)
{
    struct requests r = {.x = calloc(side->n_xs + 1, sizeof *r.x)};
    size_t i, n = 0;

    for (i = 0; r.x && i < side->n_xs; i++)
        if (wanted(&side->xs[i], p))
            r.x[n++] = &side->xs[i];
    if (r.x)
        qsort(r.x, n, sizeof *r.x, by_key);
    for (i = 0; i < n; i++) {
        const struct td_exchange *last = r.n ? r.x[r.n - 1] : NULL;

        if (!last || by_prompt_and_phase(last, r.x[i]) || last->repeat != r.x[i]->repeat)
            r.x[r.n++] = r.x[i];
        else if (!r.twice)
            r.twice = r.x[i];
    }
    return r;
}

static int64_t count_wanted(const struct td_side *side, wanted_fn *wanted,
                            const struct td_planned *p)
{
    struct requests r = gather(side, wanted, p);

    free(r.x);
    return (int64_t)r.n;
}

/* Name a prompt of which there are fewer repeats than of another, and one that is there twice. */
static void say_uneven(const struct requests *r, char *why, size_t size)
{
    size_t i, j, most = 0, least = SIZE_MAX, at = 0;

    for (i = 0; i < r->n; i = j) {
        for (j = i + 1; j < r->n && !by_prompt_and_phase(r->x[i], r->x[j]);)
            j++;
        most = j - i > most ? j - i : most;
        at = j - i < least ? i : at;
        least = j - i < least ? j - i : least;
    }
    why[0] = '\0';
    if (least < most)
        snprintf(why, size, "of %.60s there are %zu, of others %zu", name_of(r->x[at]), least,
                 most);
    if (r->twice)
        snprintf(why + strlen(why), size - strlen(why), "%s%.60s, repeat %d, is there twice",
                 *why ? "; " : "", name_of(r->twice), r->twice->repeat);
}

/* Is it one of the planned requests? One that the user stopped, or that this machine lost, has no outcome,
 * and one with a role (a scoring, a request for token ids) is no answer. */
static bool counts(const struct td_exchange *x)
{
    return x->phase != TD_PHASE_WARMUP && !td_send_was_stopped(x) && !td_exchange_unseen(x) &&
           !td_json_get(x->extra, "role");
}

static bool is_planned(const struct td_exchange *x, const struct td_planned *p)
{
    return counts(x) && !(x->phase == TD_PHASE_TIMED && p->repeats > 0 && x->repeat >= p->repeats);
}

static bool is_answered(const struct td_exchange *x, const struct td_planned *p)
{
    return is_planned(x, p) && !x->error;
}

/* ---- answers --------------------------------------------------------------------------------- */

void td_count_prompts(const struct td_comparison *c, const struct td_side *side,
                      const struct td_planned *p, struct td_absence_count *out)
{
    size_t i, j, len = 0;
    int named = 0;

    (void)side;
    out->planned = td_absence_known(p->prompts);
    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        for (j = 0; j < g->n[TD_BASE] && g->by_role[TD_BASE][j].x->error && !p->failures_allowed;)
            j++;
        out->seen += j < g->n[TD_BASE];
        if (g->n[TD_BASE] && j == g->n[TD_BASE] && named++ < 3)
            len += (size_t)snprintf(out->why + len, sizeof out->why - len, "%s%.60s",
                                    len ? ", " : "none of ", g->prompt_id);
    }
    if (named > 3)
        snprintf(out->why + len, sizeof out->why - len, " ...");
}

void td_absence_count_answered(const struct td_side *side, const struct td_planned *p,
                               struct td_absence_count *out)
{
    struct requests answered = gather(side, is_answered, p), all = gather(side, is_planned, p);
    const struct td_exchange *first = NULL;
    size_t i, failed = 0;

    out->planned = td_absence_known(p->timed) + td_absence_known(p->tapped);
    out->seen = (int64_t)answered.n;
    for (i = 0; i < all.n; i++) {
        failed += all.x[i]->error != NULL;
        first = all.x[i]->error && !first ? all.x[i] : first;
    }
    if (failed)
        snprintf(out->why, sizeof out->why, "%zu request%s failed, the first: %.60s: %.160s", failed,
                 td_plural((int64_t)failed),
                 name_of(first), first->error);
    else
        say_uneven(&answered, out->why, sizeof out->why);
    free(answered.x);
    free(all.x);
}

void td_count_answers(const struct td_comparison *c, const struct td_side *side,
                      const struct td_planned *p, struct td_absence_count *out)
{
    struct requests r;

    (void)c;
    if (!p->failures_allowed) {
        td_absence_count_answered(side, p, out);
        return;
    }
    r = gather(side, is_planned, p); /* failures were accepted, but each of them is there */
    out->planned = td_absence_known(p->timed) + td_absence_known(p->tapped);
    out->seen = (int64_t)r.n;
    say_uneven(&r, out->why, sizeof out->why);
    free(r.x);
}

void td_count_failures_allowed(const struct td_comparison *c, const struct td_side *side,
                               const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    if (!p->failures_allowed)
        return;
    td_absence_count_answered(side, p, out);
    if (!*out->why)
        snprintf(out->why, sizeof out->why, "accepted when it was recorded (--allow-failures)");
    else
        snprintf(out->say, sizeof out->say,
                 "the baseline holds %lld of %lld planned answers, which was accepted when it was "
                 "recorded (--allow-failures): %.240s",
                 (long long)out->seen, (long long)out->planned, out->why);
}

static bool is_timed(const struct td_exchange *x, const struct td_planned *p)
{
    return is_planned(x, p) && x->phase == TD_PHASE_TIMED;
}

/* How many requests a replay planned. One whose plan is lost planned those of the recording, as a
 * replay does by default. */
static int64_t planned_requests(const struct td_comparison *c, const struct td_side *side,
                                const struct td_planned *p)
{
    const struct td_side *base = &c->side[0];
    struct td_planned of_base;
    int64_t n;

    if (p->timed >= 0 || !td_json_get(td_fixture_manifest(side->fx), "replay") || !side->n_xs)
        return td_absence_known(p->timed) + td_absence_known(p->tapped);
    td_planned_read(base->fx, &of_base);
    n = count_wanted(base, is_timed, &of_base);
    return n ? n : count_wanted(base, is_planned, &of_base);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* How many of the requests have a prompt that the baseline has, too? One that it has not stands for none that was
 * planned. Out of memory there are none. */
static int64_t count_of_baseline(const struct td_comparison *c, const struct requests *r)
{
    const char **names = calloc(c->groups.n + 1, sizeof *names);
    size_t i, n = 0;
    int64_t found = 0;

    for (i = 0; names && i < c->groups.n; i++)
        if (c->groups.group[i].n[TD_BASE])
            names[n++] = c->groups.group[i].prompt_id;
    if (n)
        qsort(names, n, sizeof *names, by_name);
    for (i = 0; n && i < r->n; i++) {
        const char *name = name_of(r->x[i]);

        found += bsearch(&name, names, n, sizeof *names, by_name) != NULL;
    }
    free(names);
    return found;
}

/* A request of the candidate that failed is a result, which lanes judge. One without a trace is
 * not. */
void td_count_requests(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    const int64_t redacted = td_fixture_ledger(side->fx, "exchanges.dropped.redacted");
    struct requests r = gather(side, is_planned, p);
    char words[TD_STATE_WORDS];

    out->planned = planned_requests(c, side, p);
    out->seen = count_of_baseline(c, &r);
    if (redacted > 0)
        snprintf(out->why, sizeof out->why,
                 "%lld requests of the recording are redacted and without token ids",
                 (long long)redacted);
    else if (!td_fixture_is_whole(m))
        snprintf(out->why, sizeof out->why, "%.300s", td_fixture_state_words(m, words));
    else
        say_uneven(&r, out->why, sizeof out->why);
    free(r.x);
}

void td_count_exchange_frames(const struct td_comparison *c, const struct td_side *side,
                              const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    out->planned = (int64_t)side->bad_frames;
    snprintf(out->say, sizeof out->say,
             "%zu frame%s of exchanges %s corrupt and %s not compared (%s)", side->bad_frames,
             td_plural((int64_t)side->bad_frames), td_is((int64_t)side->bad_frames),
             td_was((int64_t)side->bad_frames),
             TD_ABSENCE_FRAMES);
}

/* Is there anything of the answer that another one can be compared with? An answer may be empty: of
 * a prompt that the model ends at once. But tokens that were counted, or whose count is not
 * known, and thoughts or calls of tools that are not kept, leave an empty answer that equals every
 * other one. */
static bool has_content(const struct td_exchange *x, bool masked)
{
    if (x->token_ids && x->ids_complete && x->n_tokens)
        return true;
    if (masked)
        return false;
    return x->n_tokens || x->text_len ||
           (x->usage.completion_tokens >= 0 && x->usage.completion_tokens <= 1 &&
            !td_json_get(x->extra, "reasoning_bytes") && !td_json_get(x->extra, "tool_calls"));
}

static void count_contents(const struct td_side *side, struct td_absence_count *out)
{
    size_t i;

    for (i = 0; i < side->n_xs; i++)
        if (counts(&side->xs[i]) && !side->xs[i].error) {
            out->planned++;
            out->seen += has_content(&side->xs[i], td_side_masks(side, &side->xs[i]));
        }
}

static bool are_all_empty(const struct td_side *side)
{
    size_t i;

    for (i = 0; i < side->n_xs; i++)
        if (counts(&side->xs[i]) && !side->xs[i].error && (side->xs[i].n_tokens || side->xs[i].text_len))
            return false;
    return true;
}

void td_count_content(const struct td_comparison *c, const struct td_side *side,
                      const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_contents(side, out);
    if (out->seen && are_all_empty(side)) { /* one prompt may end at once; a server that says nothing is another */
        out->seen = 0;
        snprintf(out->why, sizeof out->why, "every answer is empty, and equals every other one");
        return;
    }
    snprintf(out->why, sizeof out->why,
             side->no_text || side->may_mask ? "their words are redacted, and their token ids are not known"
                          : "neither text nor tokens of the others were kept");
}

/* Rules see nothing in an answer without token ids whose words are redacted, or not kept: it would pass as sound. */
void td_count_readable(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_contents(side, out);
    snprintf(out->why, sizeof out->why, "of the others neither text nor token ids are known");
}

static bool is_scored(const struct td_exchange *x, const struct td_planned *p)
{
    (void)p;
    return td_scores_role(x) && td_scores_outcome(x) == TD_SCORED;
}

/* What fails on the candidate only is judged by the lane. */
static bool has_outcome(const struct td_exchange *x, const struct td_planned *p)
{
    (void)p;
    return td_scores_role(x) && td_scores_outcome(x) != TD_SCORED_REFUSED && !td_exchange_unseen(x);
}

void td_count_scores(const struct td_comparison *c, const struct td_side *side,
                     const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_exchange *first = NULL;
    size_t i;

    (void)c;
    out->seen = count_wanted(side, side->role == TD_BASE ? is_scored : has_outcome, p);
    if (p->failures_allowed && out->seen > 0) { /* some may fail; a lane without any says nothing */
        out->seen = 0;
        return;
    }
    out->planned = td_absence_known(p->scores);
    for (i = 0; i < side->n_xs && !first; i++)
        if (td_scores_role(&side->xs[i]) && td_scores_outcome(&side->xs[i]) != TD_SCORED)
            first = &side->xs[i];
    if (first)
        snprintf(out->why, sizeof out->why, "%.240s",
                 first->error ? first->error : "the request was accepted, but not answered");
}

static bool is_tapped(const struct td_exchange *x, const struct td_planned *p)
{
    (void)p;
    return x->phase == TD_PHASE_TAPPED && !x->error;
}

void td_count_tapped(const struct td_comparison *c, const struct td_side *side,
                     const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    if (p->failures_allowed)
        return;
    out->planned = td_absence_known(p->tapped);
    out->seen = count_wanted(side, is_tapped, p);
}

/* Answers without [DONE] of a server that has it in none, and whose baseline has it in none. */
void td_count_end_marks(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    size_t i;

    (void)c;
    (void)p;
    for (i = 0; i < side->n_xs; i++) {
        out->planned += counts(&side->xs[i]) && !side->xs[i].error;
        out->seen += counts(&side->xs[i]) && !side->xs[i].error && !td_end_mark_lacks(&side->xs[i]);
    }
    snprintf(out->say, sizeof out->say,
             "no answer of either side ends with [DONE]: finish_reason alone tells that %lld are whole",
             (long long)(out->planned - out->seen));
}
