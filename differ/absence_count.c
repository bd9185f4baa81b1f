/* absence_count.c - the counts behind absence.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/number_words.h"
#include "differ/absence_type.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/invocation.h"
#include "common/json.h"
#include "differ/lane_ops.h"
#include "differ/lane_speed.h"
#include "format/fixture_check.h"
#include "wire/scores.h"
#include "wire/send.h"

/* ---- state ----------------------------------------------------------------------------------- */

/* A fixture that is not whole, and does not say all that was planned: nothing can be counted. One whose
 * recording failed may lack what no count shows. */
void td_count_plan(const struct td_comparison *c, const struct td_side *side,
                   const struct td_planned *p, struct td_absence_count *out)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    const char *state = td_json_get_str(m, "state", NULL);
    char words[TD_STATE_WORDS];

    (void)c;
    if (!state || td_fixture_is_whole(m))
        return;
    if (p->stated && !p->lost && (!strcmp(state, "interrupted") || !strcmp(state, "incomplete")))
        return;                       /* the other counts tell what is missing */
    out->planned = 1;
    snprintf(out->say, sizeof out->say, "%.160s is %.280s", td_fixture_dir(side->fx),
             td_fixture_state_words(m, words));
}

/* ---- recorded ops ---------------------------------------------------------------------------- */

/* Is it the record of a server's work, which the tap's counts describe? An extract of all its ops has the counts of what is lost. */
static bool is_recording(const struct td_side *side)
{
    const cJSON *m = td_fixture_manifest(side->fx);

    return td_json_get(m, "tap") && !td_json_get(m, "replay") && !td_json_get(m, "merge");
}

/* Ops that were meant to be recorded and got lost. What was left out by choice (a sample, --layers,
 * --budget), and what no tap can read, is coverage. */
static int64_t count_lost_ops(const struct td_side *side, char *why, size_t size)
{
    static const struct { const char *name, *words; } LOST[] = {
#define OPS_LOST(name, words) {name, words},
#define LINK_LOST(name)
#include "format/losses.def"
#undef OPS_LOST
#undef LINK_LOST
    };
    int64_t sum = 0, n;
    size_t i, len = 0;

    for (i = 0; i < sizeof LOST / sizeof LOST[0]; i++) {
        n = td_absence_known(td_fixture_ledger(side->fx, LOST[i].name));
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
    out->seen = td_absence_known(td_fixture_ledger(side->fx, "ops.kept"));
    out->planned = out->seen + count_lost_ops(side, out->why, sizeof out->why);
}

void td_count_ops_kept(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_kept(side, true, out);
}

/* A sample that lost ops is a smaller sample; what it holds is sound. */
void td_count_ops_sampled(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    (void)c;
    (void)p;
    count_kept(side, false, out);
}

/* Damage that no replayed op met (in ops left out by --max-ops, --only or a shard, in the index): the
 * checksum of the whole pack finds it. */
static void count_pack(const struct td_comparison *c, const struct td_side *side, struct td_absence_count *out)
{
    struct td_error err = c->pack.why;

    if (c->pack.fx == side->fx ? !err.code : td_fixture_check(side->fx, 1u << TD_FILE_PACK, &err) == TD_OK)
        return;
    out->planned = 1;
    out->seen = 0;
    snprintf(out->say, sizeof out->say, "%s", err.msg);
}

/* The candidate's replay read the baseline's blobs, and says which ops it could not judge for want
 * of sound ones. */
void td_count_blobs(const struct td_comparison *c, const struct td_side *side,
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
    else if (c->lane[TD_LANE_OPS].asked && c->ops.n)
        count_pack(c, side, out);
}

void td_count_op_lines(const struct td_comparison *c, const struct td_side *side,
                       const struct td_planned *p, struct td_absence_count *out)
{
    (void)p;
    if (!td_json_get(td_fixture_manifest(side->fx), "tap"))
        return;
    out->planned = td_absence_known(td_fixture_ledger(side->fx, "ops.kept"));
    out->seen = (int64_t)c->base_ops.n;
}

/* A recording, or a part of one, whose writer was stopped: the ops behind its last one are gone, and no
 * count that was kept speaks of them, unless the plan does. */
void td_count_ops_planned(const struct td_comparison *c, const struct td_side *side,
                          const struct td_planned *p, struct td_absence_count *out)
{
    const int64_t n = (int64_t)c->base_ops.n;

    if (!n || strcmp(td_json_get_str(td_fixture_manifest(side->fx), "state", ""), "interrupted") != 0)
        return;
    out->planned = p->ops >= 0 ? p->ops : n + 1;
    out->seen = n;
    if (p->ops < 0)
        snprintf(out->say, sizeof out->say,
                 "%.160s is interrupted; nothing says how many ops it was to hold (it holds %lld)",
                 td_fixture_dir(side->fx), (long long)n);
}

void td_count_taps(const struct td_comparison *c, const struct td_side *side,
                   const struct td_planned *p, struct td_absence_count *out)
{
    static const char *const LOST[] = {
#define OPS_LOST(name, words)
#define LINK_LOST(name) name,
#include "format/losses.def"
#undef OPS_LOST
#undef LINK_LOST
    };
    const cJSON *processes =
        td_json_get(td_json_get(td_fixture_manifest(side->fx), "tap"), "processes");
    int64_t lost = 0, linked = cJSON_GetArraySize(processes);
    size_t i;

    (void)c;
    (void)p;
    if (!is_recording(side))
        return;
    for (i = 0; i < sizeof LOST / sizeof LOST[0]; i++)
        lost += td_absence_known(td_fixture_ledger(side->fx, LOST[i]));
    out->planned = linked > lost ? linked : lost;
    out->seen = out->planned - lost;
    snprintf(out->why, sizeof out->why,
             "the others ended or broke while their ops were recorded (fixture show DIR ledger)");
}

/* Without its step it is not known which prompt an op served. The op itself is judged, but a
 * recording that lost steps is not the one that was made. */
void td_count_steps(const struct td_comparison *c, const struct td_side *side,
                    const struct td_planned *p, struct td_absence_count *out)
{
    struct td_file_fact f;

    (void)c;
    (void)p;
    if (!is_recording(side) || td_json_get(td_fixture_manifest(side->fx), "extract") || td_manifest_get_file(td_fixture_manifest(side->fx),
                                                    td_file_names[TD_FILE_STEPS], &f))
        return;
    out->planned = td_absence_known(td_fixture_ledger(side->fx, "steps.kept"));
    out->seen = (int64_t)f.records;
    snprintf(out->why, sizeof out->why, "of the others it is not known which prompt they served");
}

void td_count_op_frames(const struct td_comparison *c, const struct td_side *side,
                        const struct td_planned *p, struct td_absence_count *out)
{
    size_t i, exchanges = 0;

    (void)side;
    (void)p;
    for (i = 0; i < c->n_sides; i++)
        exchanges += c->side[i].bad_frames;
    out->planned = (int64_t)(c->bad_frames - exchanges);
    snprintf(out->say, sizeof out->say, "%zu frame%s of ops %s corrupt and %s not judged (%s)",
             c->bad_frames - exchanges, td_plural(out->planned), td_is(out->planned),
             td_was(out->planned), TD_ABSENCE_FRAMES);
}

/* ---- replayed ops ---------------------------------------------------------------------------- */

/* Does this fixture hold the replayed ops? A replay says so in its ledger. Where none does, for the
 * ledger is lost, it is the first one, if ops are there at all. */
static bool replays_ops(const struct td_comparison *c, const struct td_side *side)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    size_t i;

    if (td_json_get(td_fixture_manifest(side->fx), "replay") &&
        td_fixture_ledger(side->fx, "ops.seen"))
        return true;
    for (i = 0; i < c->n_sides; i++)
        if (c->side[i].role == TD_NEW && td_fixture_ledger(c->side[i].fx, "ops.seen"))
            return false;
    return found->numerics.joined && !side->round;
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t p = *(const uintptr_t *)a, q = *(const uintptr_t *)b;

    return (p > q) - (p < q);
}

/* The recorded ops that were replayed, each once: one that is there twice does not stand for
 * another. Out of memory there are none, and so nothing passes. */
static int64_t count_replayed(const struct td_comparison *c)
{
    uintptr_t *origins = calloc(c->ops.n + 1, sizeof *origins);
    size_t i, n = 0;
    int64_t seen = 0;

    for (i = 0; origins && i < c->ops.n; i++)
        if (c->ops.op[i].origin)
            origins[n++] = (uintptr_t)c->ops.op[i].origin;
    if (origins)
        qsort(origins, n, sizeof *origins, by_address);
    for (i = 0; i < n; i++)
        seen += !i || origins[i] != origins[i - 1];
    free(origins);
    return seen;
}

/* All recorded ops are to be replayed, but for those that --only, --max-ops or a plan leave out. A merge
 * has the counts of all its parts, each of which read all ops. */
void td_count_ops_replayed(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    const cJSON *m = td_fixture_manifest(side->fx);
    const char *shard = td_json_get_str(td_json_get(m, "replay"), "shard", NULL);
    int parts = cJSON_GetArraySize(td_json_get(td_json_get(m, "merge"), "from"));
    char words[TD_STATE_WORDS];

    if (!replays_ops(c, side))
        return;
    parts = parts > 0 ? parts : 1;
    out->planned = (int64_t)c->base_ops.n -
                   td_absence_known(td_fixture_ledger(side->fx, "ops.dropped.filter")) / parts -
                   td_absence_known(td_fixture_ledger(side->fx, "ops.dropped.sampled")) -
                   td_absence_known(td_fixture_ledger(side->fx, "ops.dropped.plan"));
    out->seen = count_replayed(c);
    if (out->seen >= out->planned && p->ops > (int64_t)c->ops.n) { /* the baseline lacks them, too: as a replay whose time ended */
        out->planned = p->ops;
        out->seen = (int64_t)c->ops.n;
    }
    if (shard)
        snprintf(out->why, sizeof out->why,
                 "it is the shard %.40s; fixture merge joins all shards of a replay", shard);
    else if (parts > 1 || td_fixture_ledger(side->fx, "ops.dropped.shard"))
        snprintf(out->why, sizeof out->why, "not all shards were merged");
    else if (!td_fixture_is_whole(m))
        snprintf(out->why, sizeof out->why, "%.300s", td_fixture_state_words(m, words));
}

/* A baseline build that refuses an op, or lacks memory for it, is no baseline of that op: what was recorded stands in its place, and
 * nobody asked for that. One that dies is judged by the lane. */
void td_count_baseline_runs(const struct td_comparison *c, const struct td_side *side,
                            const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_judged_op *first = NULL;
    size_t i;

    (void)p;
    if (!td_json_get(td_json_get(td_fixture_manifest(side->fx), "replay"), "baseline_build"))
        return;
    for (i = 0; i < c->ops.n; i++) {
        const struct td_judged_op *op = &c->ops.op[i];

        if (op->status != TD_OP_OK || op->without_reference)
            continue;
        out->planned++;
        out->seen += op->baseline.present;
        if (!op->baseline.present && !first)
            first = op;
    }
    if (first)
        snprintf(out->say, sizeof out->say, "the baseline build did not run %lld of %lld ops that the new one ran (op %lld: %.160s)",
                 (long long)(out->planned - out->seen), (long long)out->planned, (long long)first->op,
                 first->baseline_lacks ? first->baseline_lacks : "its judgement says nothing of it");
}

/* ---- timings --------------------------------------------------------------------------------- */

/* A replay that lacks ops, as of a shard, or one whose time ended: the ops that it left out may be those that were to be timed. */
static bool count_cut_off(const struct td_comparison *c, const struct td_side *side, const struct td_planned *p,
                          struct td_absence_count *out)
{
    const int64_t left_out = td_absence_known(td_fixture_ledger(side->fx, "ops.dropped.time"));
    struct td_absence_count ops = {0};

    td_count_ops_replayed(c, side, p, &ops);
    if (!left_out && ops.seen >= ops.planned)
        return false;
    if (!left_out) {
        out->planned = ops.planned;
        out->seen = ops.seen;
        snprintf(out->say, sizeof out->say,
                 "%lld of %lld planned ops were replayed: those left out were to be timed as well%s%.200s",
                 (long long)ops.seen, (long long)ops.planned, *ops.why ? "; " : "", ops.why);
        return true;
    }
    out->planned = p->ops > left_out ? p->ops : left_out;
    out->seen = out->planned - left_out;
    snprintf(out->say, sizeof out->say,
             "the time ended after %lld of %lld planned ops: those left out were to be timed as well "
             "(--time N gives more)", (long long)out->seen, (long long)out->planned);
    return true;
}

/* Ops that were to be timed, and that a build did not run, or failed in as it was timed. */
static void count_untimed(const struct td_comparison *c, struct td_absence_count *out)
{
    const struct td_judged_op *first = NULL;
    size_t i;

    for (i = 0; i < c->ops.n; i++) {
        const struct td_judged_op *op = &c->ops.op[i];

        if (op->untimed && !first)
            first = op;
        out->planned += op->untimed || op->n_hot > 0;
        out->seen += !op->untimed && op->n_hot > 0;
    }
    if (first)
        snprintf(out->say, sizeof out->say, "%lld of %lld ops could not be timed (op %lld: %.160s)",
                 (long long)(out->planned - out->seen), (long long)out->planned,
                 (long long)first->op, first->untimed);
    else if (!out->planned)
        out->planned = 1;
}

void td_count_pairs(const struct td_comparison *c, const struct td_side *side,
                    const struct td_planned *p, struct td_absence_count *out)
{

    if (p->ops <= 0 ||
        !td_json_get(td_json_get(td_fixture_manifest(side->fx), "replay"), "baseline_build") ||
        count_cut_off(c, side, p, out))
        return;
    snprintf(out->say, sizeof out->say,
             "no op was timed beside the baseline build, though one was named");
    count_untimed(c, out);
}

static int count_sides(const struct td_comparison *c, enum td_role role)
{
    size_t i;
    int n = 0;

    for (i = 0; i < c->n_sides; i++)
        n += c->side[i].role == role;
    return n;
}

void td_count_rounds(const struct td_comparison *c, const struct td_side *side,
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

/* Speed is that of the answers which are there: of live rounds, or of the starts of a recording. */
void td_count_live_answers(const struct td_comparison *c, const struct td_side *side,
                           const struct td_planned *p, struct td_absence_count *out)
{
    const struct td_speed *speed = c->lane[TD_LANE_SPEED].measured;
    const bool base = side->role == TD_BASE, live = count_sides(c, TD_LIVE) > 0, starts = speed->by_starts;

    if (base ? starts && !live && !p->failures_allowed : live || starts)
        td_absence_count_answered(side, p, out);
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
    {#name, noun, lanes, roles, verdict, td_count_##name},
#include "differ/absence.def"
#undef ABSENCE
};
const size_t td_n_absence_types = sizeof td_absence_types / sizeof td_absence_types[0];
