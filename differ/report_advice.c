/* report_advice.c - what a comparison did not check.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_advice.h"

#include <stdio.h>
#include <string.h>

#include "common/number_words.h"
#include "differ/comparison.h"
#include "differ/lane_ops.h"
#include "differ/speed.h"

/* ---- not checked ----------------------------------------------------------------------------- */

/* "6300 of 7224 GEMMs (those judged cover 20 of 20 shapes x M classes)" */
static void add_sampled(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const struct td_numerics *n = &found->numerics;
    const int64_t seen = c->coverage.extract ? 0 : c->coverage.seen + c->coverage.unread,
                  all = seen > (int64_t)c->base_ops.n ? seen : (int64_t)c->base_ops.n,
                  done = (int64_t)(n->judged - n->broken + n->compared);
    size_t i, groups = 0, judged = 0;
    char words[160];

    for (i = 0; i < n->n; i++) {
        groups += n->group[i].judged || !n->group[i].compared;
        judged += n->group[i].judged > n->group[i].broken;
    }
    if (all <= done)
        return;
    snprintf(words, sizeof words, "%lld of %lld %s (judged: %zu of %zu shapes x M classes)",
             (long long)(all - done), (long long)all, c->coverage.all_kinds ? "ops" : "GEMMs", judged,
             groups);
    td_jw_cstr(w, NULL, words);
}

/* What a CUDA graph computes is in no figure unless its launches were read. */
static void add_graphs(const struct td_comparison *c, struct td_jw *w)
{
    char words[80];

    if (!c->coverage.graphs)
        return;
    snprintf(words, sizeof words, "%lld launch%s of CUDA graphs", (long long)c->coverage.graphs,
             c->coverage.graphs == 1 ? "" : "es");
    td_jw_cstr(w, NULL, words);
}

const char *td_own_kernels(const struct td_comparison *c)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const cJSON *replay = td_json_get(td_fixture_manifest(c->side[1].fx), "replay");

    if (!c->lane[TD_LANE_OPS].asked || found->numerics.judged + found->numerics.compared == 0 ||
        td_json_get_str(replay, "build", NULL))
        return NULL;
    return td_json_get_str(replay, "provider", NULL);
}

static void add_own_kernels(const struct td_comparison *c, struct td_jw *w)
{
    const char *provider = td_own_kernels(c);
    char words[120];

    if (!provider)
        return;
    snprintf(words, sizeof words, "any build (Tapedeck's own %.60s kernels ran)", provider);
    td_jw_cstr(w, NULL, words);
}

/* With one run of each op nothing shows whether results repeat. */
static void add_repeats(const struct td_comparison *c, struct td_jw *w)
{
    size_t i, once = 0, more = 0;

    for (i = 0; i < c->ops.n; i++) {
        const struct td_judged_op *op = &c->ops.op[i];

        once += op->candidate.present && !op->candidate.crash && op->candidate.repeats <= 1;
        more += op->candidate.repeats > 1;
    }
    if (once && !more)
        td_jw_cstr(w, NULL, "whether results repeat (each op ran once)");
}

/* Bias shows in many ops together: in groups of few ops it does not. */
static void add_bias(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_bias *b = &((const struct td_ops_found *)c->lane[TD_LANE_OPS].measured)->numerics.bias;
    char words[100];

    if (b->few && b->groups) {
        snprintf(words, sizeof words, "bias in %zu of %zu groups (too few ops)", b->few, b->few + b->groups);
        td_jw_cstr(w, NULL, words);
    } else if (b->few) {
        td_jw_cstr(w, NULL, "bias (too few ops of each shape)");
    }
    if (b->digests) {
        snprintf(words, sizeof words, "bias of %zu op%s (digests were recorded)", b->digests, td_plural((int64_t)b->digests));
        td_jw_cstr(w, NULL, words);
    }
    if (b->without) {
        snprintf(words, sizeof words, "bias of %zu op%s (no sums of errors)", b->without, td_plural((int64_t)b->without));
        td_jw_cstr(w, NULL, words);
    }
}

/* What a build declares about its sums is taken as it is. */
static void add_halves(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_numerics *n = &((const struct td_ops_found *)c->lane[TD_LANE_OPS].measured)->numerics;
    char words[120];

    if (!n->halves_block)
        return;
    snprintf(words, sizeof words, "errors within sums in halves of blocks of %lld, which the build declares",
             (long long)n->halves_block);
    td_jw_cstr(w, NULL, words);
}

static bool masks_any(const struct td_side *side)
{
    size_t i = 0;

    while (i < side->n_xs && !td_side_masks(side, &side->xs[i]))
        i++;
    return i < side->n_xs;
}

/* Where the words of answers are overwritten, tokens alone are compared. */
static void add_texts(const struct td_comparison *c, struct td_jw *w)
{
    if (c->lane[TD_LANE_TOKENS].asked && (masks_any(&c->side[0]) || masks_any(&c->side[1])))
        td_jw_cstr(w, NULL, "texts of answers (redacted)");
}

/* Answers of rounds that serve timings alone: no lane reads what they say. */
static void add_timed_answers(const struct td_comparison *c, struct td_jw *w)
{
    size_t i, timed = 0;
    char words[100];

    for (i = 0; i < c->groups.n; i++)
        timed += c->groups.group[i].n[TD_NEW] - c->compared.group[i].n[TD_NEW];
    if (!timed || !(c->lane[TD_LANE_TOKENS].asked || c->lane[TD_LANE_COLLAPSE].asked))
        return;
    snprintf(words, sizeof words, "%zu answer%s of rounds from the fourth on (timed alone)", timed, td_plural((int64_t)timed));
    td_jw_cstr(w, NULL, words);
}

/* A lane that could not judge looked at nothing, though it was asked. Of both kinds of speed one may have been judged. */
static void add_speed(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_lane *lane = &c->lane[TD_LANE_SPEED];
    const struct td_speed *s = lane->measured;

    if (!lane->asked || lane->verdict == TD_NOT_JUDGED)
        td_jw_cstr(w, NULL, "speed");
    else if (s->starts && !s->server_judged)
        td_jw_cstr(w, NULL, "the server's speed");
}

/* A row of a single op, or of too few starts, shows no slowdown, however large: it counts in the total alone. */
static void add_rows(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_speed *s = c->lane[TD_LANE_SPEED].measured;
    size_t i, rows = 0, few = 0;
    char words[100];

    for (i = 0; i < s->n; i++) {
        const struct td_speed_row *r = &s->row[i];

        if (r->total || !td_speed_metric_is_op(r->metric))
            continue;
        rows++;
        few += r->ops < 2 || r->verdict == TD_NOT_JUDGED;
    }
    if (!few || !c->lane[TD_LANE_SPEED].asked)
        return;
    snprintf(words, sizeof words, "speed in %zu of %zu rows (too few ops)", few, rows);
    td_jw_cstr(w, NULL, few < rows ? words : "speed but in total (too few ops of each shape)");
}

void td_advice_write_not_checked(const struct td_comparison *c, struct td_jw *w)
{
    td_jw_arr(w, "not_checked");
    add_own_kernels(c, w);
    if (!c->lane[TD_LANE_TOKENS].asked)
        td_jw_cstr(w, NULL, "answers");
    add_texts(c, w);
    add_timed_answers(c, w);
    if (!c->lane[TD_LANE_OPS].asked)
        td_jw_cstr(w, NULL, "kernels");
    add_speed(c, w);
    add_rows(c, w);
    if (c->lane[TD_LANE_OPS].asked) {
        if (!c->coverage.all_kinds)
            td_jw_cstr(w, NULL, "attention, norms, sampling");
        add_repeats(c, w);
        add_graphs(c, w);
        add_sampled(c, w);
        add_bias(c, w);
        add_halves(c, w);
    }
    td_jw_end(w);
}
