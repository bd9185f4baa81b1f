/* absence_count.c - the counts behind absence.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/absence_count.h"

#include <stdio.h>
#include <string.h>

#include "common/invocation.h"
#include "common/json.h"
#include "differ/lane_ops.h"
#include "format/fixture_check.h"
#include "wire/scores.h"
#include "wire/send.h"

#define NEXT_OF_FRAMES "fixture verify DIR names them, fixture repair DIR derives what it can"

static int64_t known(int64_t n)
{
    return n > 0 ? n : 0;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* A fixture that is not whole, and does not say what was planned: nothing can be counted. One whose
 * recording failed may lack what no count shows. */
static void count_plan(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    const char *state = td_json_get_str(m, "state", NULL);
    char words[TD_STATE_WORDS];

    (void)c;
    if (!state || td_fixture_is_whole(m))
        return;
    if (p->stated && (!strcmp(state, "interrupted") || !strcmp(state, "incomplete")))
        return;                       /* the other counts tell what is missing */
    out->planned = 1;
    snprintf(out->say, sizeof out->say, "%.160s is %.280s", td_fixture_dir(side->fx),
             td_fixture_state_words(m, words));
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Is it one of the planned requests? One that the user stopped has no outcome. */
static bool counts(const struct td_exchange *x)
{
    return x->phase != TD_PHASE_WARMUP && !td_send_was_stopped(x);
}

static void count_prompts(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    size_t i, j, len = 0;
    int named = 0;

    (void)side;
    if (p->failures_allowed)
        return;
    out->planned = known(p->prompts);
    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        for (j = 0; j < g->n[TD_BASE] && g->by_role[TD_BASE][j].x->error; j++)
            ;
        out->seen += j < g->n[TD_BASE];
        if (g->n[TD_BASE] && j == g->n[TD_BASE] && named++ < 3)
            len += (size_t)snprintf(out->why + len, sizeof out->why - len, "%s%.60s",
                                    len ? ", " : "none of ", g->prompt_id);
    }
    if (named > 3)
        snprintf(out->why + len, sizeof out->why - len, " ...");
}

/* The planned answers of one fixture against those that are there without an error. */
static void count_answered(const struct td_side *side, const struct td_planned *p,
                           struct td_absence_count *out)
{
    const struct td_exchange *first = NULL;
    int64_t failed = 0;
    size_t i;

    out->planned = known(p->timed) + known(p->tapped);
    for (i = 0; i < side->n_xs; i++) {
        const struct td_exchange *x = &side->xs[i];

        if (!counts(x))
            continue;
        out->seen += !x->error;
        failed += x->error != NULL;
        first = x->error && !first ? x : first;
    }
    if (failed)
        snprintf(out->why, sizeof out->why, "%lld requests failed, the first: %.60s: %.160s",
                 (long long)failed, first->prompt_id ? first->prompt_id : "", first->error);
}

static void count_answers(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    if (!p->failures_allowed)
        count_answered(side, p, out);
}

static void count_failures_allowed(const struct td_comparison *c, const struct td_side *side,
                                   const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    if (!p->failures_allowed)
        return;
    count_answered(side, p, out);
    if (!*out->why)
        snprintf(out->why, sizeof out->why, "accepted when it was recorded (--allow-failures)");
    else
        snprintf(out->say, sizeof out->say,
                 "the baseline holds %lld of %lld planned answers, which was accepted when it was "
                 "recorded (--allow-failures): %.240s",
                 (long long)out->seen, (long long)out->planned, out->why);
}

/* A request of the candidate that failed is a result, which lanes judge. One without a trace is
 * not. */
static void count_requests(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    const int64_t redacted = td_fixture_ledger(side->fx, "exchanges.dropped.redacted");
    char words[TD_STATE_WORDS];
    size_t i;

    (void)c;
    out->planned = known(p->timed) + known(p->tapped);
    for (i = 0; i < side->n_xs; i++)
        out->seen += counts(&side->xs[i]);
    if (redacted > 0)
        snprintf(out->why, sizeof out->why,
                 "%lld requests of the recording are redacted and without token ids",
                 (long long)redacted);
    else if (!td_fixture_is_whole(m))
        snprintf(out->why, sizeof out->why, "%.300s", td_fixture_state_words(m, words));
}

static void count_exchange_frames(const struct td_comparison *c, const struct td_side *side,
                                  const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    out->planned = (int64_t)side->bad_frames;
    snprintf(out->say, sizeof out->say,
             "%zu frames of exchanges are corrupt and were not compared (%s)", side->bad_frames,
             NEXT_OF_FRAMES);
}

/* Are the words of answers overwritten in this fixture? */
static bool masks_answers(const cJSON *manifest)
{
    const cJSON *r = td_json_get(manifest, "redaction"), *path;

    if (td_json_get_bool(r, "no_text", false))
        return true;
    cJSON_ArrayForEach(path, td_json_get(r, "json_paths"))
        if (cJSON_IsString(path) &&
            (!strncmp(path->valuestring, "choices", 7) || !strncmp(path->valuestring, "**", 2) ||
             !strncmp(path->valuestring, "content", 7)))
            return true;
    return false;
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
           (x->usage.completion_tokens >= 0 && x->usage.completion_tokens <= 1 && !td_json_get(x->extra, "reasoning_bytes") &&
            !td_json_get(x->extra, "tool_calls"));
}

static void count_content(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    const bool masked = masks_answers(td_fixture_manifest(side->fx));
    size_t i;

    (void)c;
    (void)p;
    for (i = 0; i < side->n_xs; i++)
        if (counts(&side->xs[i]) && !side->xs[i].error) {
            out->planned++;
            out->seen += has_content(&side->xs[i], masked);
        }
    snprintf(out->why, sizeof out->why,
             masked ? "their words are redacted, and their token ids are not known"
                    : "neither text nor tokens of the others were kept");
}

static void count_scores(const struct td_comparison *c, const struct td_side *side,
                         const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_exchange *first = NULL;
    const bool base = side->role == TD_BASE;
    size_t i;

    (void)c;
    if (p->failures_allowed)
        return;
    out->planned = known(p->scores);
    for (i = 0; i < side->n_xs; i++) {
        const struct td_exchange *x = &side->xs[i];
        enum td_scored o;

        if (!td_scores_role(x))
            continue;
        o = td_scores_outcome(x);
        /* what fails on the candidate only is judged by the lane */
        out->seen += o == TD_SCORED || (!base && o != TD_SCORED_REFUSED);
        first = o != TD_SCORED && !first ? x : first;
    }
    if (first)
        snprintf(out->why, sizeof out->why, "%.240s",
                 first->error ? first->error : "the request was accepted, but not answered");
}

/* ---- recorded ops ---------------------------------------------------------------------------- */

/* Is it the record of a server's work, which the tap's counts describe? */
static bool is_recording(const struct td_side *side)
{
    const cJSON *m = td_fixture_manifest(side->fx);

    return td_json_get(m, "tap") && !td_json_get(m, "replay") && !td_json_get(m, "merge") &&
           !td_json_get(m, "extract");
}

static void count_tapped(const struct td_comparison *c, const struct td_side *side,
                         const struct td_planned *p, struct td_absence_count *out)
{
    size_t i;

    (void)c;
    if (p->failures_allowed)
        return;
    out->planned = known(p->tapped);
    for (i = 0; i < side->n_xs; i++)
        out->seen += side->xs[i].phase == TD_PHASE_TAPPED && !side->xs[i].error;
}

/* Ops that were meant to be recorded and got lost. What was left out by choice (a sample, --layers,
 * --budget), and what no tap can read, is coverage. */
static int64_t count_lost_ops(const struct td_side *side, char *why, size_t size)
{
    static const struct { const char *name, *words; } LOST[] = {
        {"ops.dropped.ring", "found no room on their way (--budget or --layers record less at a "
                             "time, --ring-mib gives more room)"},
        {"ops.dropped.threads", "came from more threads than there are rings"},
        {"ops.dropped.recorder", "could not be written"},
        {"ops.dropped.unreadable", "lay in another device's memory"},
        {"ops.dropped.weights", "came without their weights"}};
    int64_t sum = 0, n;
    size_t i, len = 0;

    for (i = 0; i < sizeof LOST / sizeof LOST[0]; i++) {
        n = known(td_fixture_ledger(side->fx, LOST[i].name));
        if (n && len < size)
            len += (size_t)snprintf(why + len, size - len, "%s%lld %s", sum ? ", " : "",
                                    (long long)n, LOST[i].words);
        sum += n;
    }
    return sum;
}

static void count_kept(const struct td_side *side, bool all, struct td_absence_count *out)
{
    const cJSON *mode = td_json_get(td_json_get(td_fixture_manifest(side->fx), "tap"), "mode");

    if (!is_recording(side) || all != !strcmp(td_json_get_str(mode, "take", ""), "all"))
        return;
    out->seen = known(td_fixture_ledger(side->fx, "ops.kept"));
    out->planned = out->seen + count_lost_ops(side, out->why, sizeof out->why);
}

static void count_ops_kept(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_kept(side, true, out);
}

/* A sample that lost ops is a smaller sample; what it holds is sound. */
static void count_ops_sampled(const struct td_comparison *c, const struct td_side *side,
                              const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_kept(side, false, out);
}

/* The candidate's replay read the baseline's blobs, and says which ops it could not judge for want
 * of sound ones. */
static void count_blobs(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_judged_op *first = NULL;
    char format[400];
    int64_t damaged = 0;
    size_t i;

    (void)p;
    for (i = 0; i < c->ops.n; i++) {
        const struct td_judged_op *op = &c->ops.op[i];

        out->planned += op->status != TD_OP_NONE;
        damaged += op->damaged;
        if (op->damaged && (!first || td_judged_op_runs_before(op, first)))
            first = op;
    }
    out->seen = out->planned - damaged;
    if (first)
        snprintf(out->say, sizeof out->say,
                 td_invocation_expand("recorded bytes of %lld of %lld ops are damaged (first: op "
                                      "%lld, %.200s); " TD_NEXT_OF_DAMAGE, format, sizeof format),
                 (long long)damaged, (long long)out->planned, (long long)first->op,
                 first->reason ? first->reason : "?", td_fixture_dir(side->fx));
}

static void count_op_lines(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    (void)p;
    if (!td_json_get(td_fixture_manifest(side->fx), "tap"))
        return;
    out->planned = known(td_fixture_ledger(side->fx, "ops.kept"));
    out->seen = (int64_t)c->base_ops.n;
}

static void count_taps(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    static const char *const LOST[] = {"links.lost", "links.left_out", "links.disarmed",
                                       "links.corrupt"};
    const cJSON *processes =
        td_json_get(td_json_get(td_fixture_manifest(side->fx), "tap"), "processes");
    int64_t lost = 0, linked = cJSON_GetArraySize(processes);
    size_t i;

    (void)c;
    (void)p;
    if (!is_recording(side))
        return;
    for (i = 0; i < sizeof LOST / sizeof LOST[0]; i++)
        lost += known(td_fixture_ledger(side->fx, LOST[i]));
    out->planned = linked > lost ? linked : lost;
    out->seen = out->planned - lost;
    snprintf(out->why, sizeof out->why,
             "the others ended or broke while their ops were recorded (fixture show DIR ledger)");
}

/* Without its step it is not known which prompt an op served; the op itself is judged. */
static void count_steps(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    struct td_file_fact f;

    (void)c;
    (void)p;
    if (!is_recording(side) || td_manifest_get_file(td_fixture_manifest(side->fx),
                                                    td_file_names[TD_FILE_STEPS], &f))
        return;
    out->planned = known(td_fixture_ledger(side->fx, "steps.kept"));
    out->seen = (int64_t)f.records;
    snprintf(out->why, sizeof out->why, "of the others it is not known which prompt they served");
}

static void count_op_frames(const struct td_comparison *c, const struct td_side *side,
                            const struct td_planned *p, struct td_absence_count *out)
{
    size_t i, exchanges = 0;

    (void)side;
    (void)p;
    for (i = 0; i < c->n_sides; i++)
        exchanges += c->side[i].bad_frames;
    out->planned = (int64_t)(c->bad_frames - exchanges);
    snprintf(out->say, sizeof out->say, "%zu frames of ops are corrupt and were not judged (%s)",
             c->bad_frames - exchanges, NEXT_OF_FRAMES);
}

/* ---- replayed ops ---------------------------------------------------------------------------- */

/* All recorded ops are to be replayed, but for those that --only and --max-ops leave out. A merge
 * has the counts of all its parts, each of which read all ops. */
static void count_ops_replayed(const struct td_comparison *c, const struct td_side *side,
                               const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const cJSON *m = td_fixture_manifest(side->fx);
    const char *shard = td_json_get_str(td_json_get(m, "replay"), "shard", NULL);
    int parts = cJSON_GetArraySize(td_json_get(td_json_get(m, "merge"), "from"));
    char words[TD_STATE_WORDS];

    (void)p;
    if (!td_json_get(m, "replay") || !td_fixture_ledger(side->fx, "ops.seen"))
        return;
    parts = parts > 0 ? parts : 1;
    out->planned = (int64_t)c->base_ops.n -
                   known(td_fixture_ledger(side->fx, "ops.dropped.filter")) / parts -
                   known(td_fixture_ledger(side->fx, "ops.dropped.sampled"));
    out->seen = (int64_t)found->numerics.joined;
    if (shard)
        snprintf(out->why, sizeof out->why,
                 "it is the shard %.40s; fixture merge joins all shards of a replay", shard);
    else if (parts > 1 || td_fixture_ledger(side->fx, "ops.dropped.shard"))
        snprintf(out->why, sizeof out->why, "not all shards were merged");
    else if (!td_fixture_is_whole(m))
        snprintf(out->why, sizeof out->why, "%.300s", td_fixture_state_words(m, words));
}

/* ---- timings --------------------------------------------------------------------------------- */

static void count_pairs(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    size_t i;

    if (p->ops <= 0 ||
        !td_json_get(td_json_get(td_fixture_manifest(side->fx), "replay"), "baseline_build"))
        return;
    out->planned = 1;
    for (i = 0; i < c->ops.n && !out->seen; i++)
        out->seen = c->ops.op[i].n_hot > 0;
    snprintf(out->say, sizeof out->say,
             "no op was timed beside the baseline build, though one was named");
}

static int count_sides(const struct td_comparison *c, enum td_role role)
{
    size_t i;
    int n = 0;

    for (i = 0; i < c->n_sides; i++)
        n += c->side[i].role == role;
    return n;
}

static void count_rounds(const struct td_comparison *c, const struct td_side *side,
                         const struct td_planned *p, struct td_absence_count *out)
{
    const int live = count_sides(c, TD_LIVE), now = count_sides(c, TD_NEW);

    (void)p;
    if (!live || live == now || side->round)
        return;
    out->planned = live > now ? live : now;
    out->seen = live < now ? live : now;
    snprintf(out->say, sizeof out->say,
             "%d rounds of the live baseline and %d of the candidate: those without a partner are "
             "not compared",
             live, now);
}

static void count_live_answers(const struct td_comparison *c, const struct td_side *side,
                               const struct td_planned *p, struct td_absence_count *out)
{
    if (count_sides(c, TD_LIVE))
        count_answered(side, p, out);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define TOKENS (1u << TD_LANE_TOKENS)
#define COLLAPSE (1u << TD_LANE_COLLAPSE)
#define SCORES (1u << TD_LANE_SCORES)
#define OPS (1u << TD_LANE_OPS)
#define SPEED (1u << TD_LANE_SPEED)
#define EVERY ((1u << TD_N_LANES) - 1)
#define BASE (1u << TD_BASE)
#define LIVE (1u << TD_LIVE)
#define NEW (1u << TD_NEW)
#define CALIBRATE (1u << TD_CALIBRATE)
#define ANY ((1u << TD_N_ROLES) - 1)

const struct td_absence_type td_absence_types[] = {
#define ABSENCE(name, lanes, roles, verdict, noun)                                                 \
    {#name, noun, lanes, roles, verdict, count_##name},
#include "differ/absence.def"
#undef ABSENCE
};
const size_t td_n_absence_types = sizeof td_absence_types / sizeof td_absence_types[0];
