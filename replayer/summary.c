/* summary.c - print what was replayed and how it went, as a table on stdout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/clean.h"
#include "common/log.h"
#include "common/number_words.h"

enum { CLEAN_MAX = 1 << 14 }; /* a name or reason as one line: one byte becomes six at most */

static void print_requests(const struct td_fixture_replay_result *r)
{
    const struct td_request_replay_stats *q = &r->requests;
    struct td_client_lag lag = q->lag; /* the same samples, which are sorted */
    struct td_buf server = TD_BUF_INIT(CLEAN_MAX);

    td_clean_line(r->server, sizeof r->server, &server);
    printf("requests  %s\n", td_buf_str(&server));
    td_buf_release(&server);
    printf("  %lld answered, %lld with an error, %lld not sent, of %lld; %.1f s\n", (long long)q->answered, (long long)q->failed,
           (long long)q->not_sent, (long long)q->plan.planned, q->seconds);
    if (q->scored + q->not_scored)
        printf("  %lld of %lld recorded answers scored token by token\n", (long long)q->scored,
               (long long)(q->scored + q->not_scored));
    td_client_lag_print(&lag, "  ", true, stdout);
    if (q->plan.skipped)
        printf("  %lld could not be sent again (redacted, without token ids)\n", (long long)q->plan.skipped);
    if (q->plan.by_token_ids)
        printf("  prompts went as token ids: the recording holds no text\n");
    if (q->server_gone)
        printf("  %s\n", q->no_files ? TD_REPLAY_NO_FILES : TD_REPLAY_SERVER_GONE);
}

static void format_score(double score, char *out, size_t n)
{
    if (score < 0)
        snprintf(out, n, "-");
    else if (isinf(score)) /* NaN or Inf in place of a number, or nothing written */
        snprintf(out, n, "Infinity");
    else
        snprintf(out, n, score < 1000 ? "%.3f" : "%.3g", score);
}

/* ---- the table of ops ------------------------------------------------------------------------ */

enum { LINE_COLUMNS = 100, NAME_MIN = 20, NUMBERS = 8, SCORE_COLUMNS = 9 };

/* The columns of counts. In a table that would be too wide, those between ran and over that are 0 in
 * every row are left out, and after that names are cut. */
struct layout { int name; bool shown[NUMBERS]; bool with_baseline; };

static const struct { const char *name; int columns; } COUNTS[NUMBERS] = {
    {"ops", 7}, {"ran", 7}, {"unsup.", 6}, {"failed", 6}, {"crash", 6}, {"hung", 5}, {"broken", 6}, {"over", 6}};

/* The numbers of a row, in the order of COUNTS. */
static void counts_of(const struct td_op_replay_row *r, int64_t out[NUMBERS])
{
    const int64_t all[NUMBERS] = {0, r->count[TD_OP_OK], r->count[TD_OP_UNSUPPORTED], r->count[TD_OP_FAILED],
                                  r->count[TD_OP_CRASHED], r->count[TD_OP_HUNG], r->count[TD_OP_BROKEN], r->over};
    int i;

    memcpy(out, all, sizeof all);
    for (i = 0; i < TD_OP_STATUS_COUNT; i++)
        out[0] += r->count[i];
}

static int width_of(const struct layout *l)
{
    int i, n = 2 + l->name + 2 + 2 * SCORE_COLUMNS + 1 + (l->with_baseline ? 1 + SCORE_COLUMNS : 0);

    for (i = 0; i < NUMBERS; i++)
        n += l->shown[i] ? 1 + COUNTS[i].columns : 0;
    return n;
}

static struct layout layout_of(const struct td_op_replay_stats *o, bool with_baseline)
{
    struct layout l = {NAME_MIN, {0}, with_baseline};
    bool used[NUMBERS] = {[0] = true, [1] = true, [NUMBERS - 1] = true};
    int64_t count[NUMBERS];
    size_t i;
    int k;

    memset(l.shown, true, sizeof l.shown);
    for (i = 0; i < o->n_rows; i++) {
        const int n = (int)(strlen(o->rows[i].kernel) + 1 + strlen(o->rows[i].shape));

        l.name = n > l.name ? n : l.name;
        counts_of(&o->rows[i], count);
        for (k = 0; k < NUMBERS; k++)
            used[k] |= count[k] != 0;
    }
    if (width_of(&l) > LINE_COLUMNS)
        memcpy(l.shown, used, sizeof used);
    while (l.name > NAME_MIN && width_of(&l) > LINE_COLUMNS)
        l.name--;
    return l;
}

static void print_heading(const struct layout *l)
{
    int i;

    printf("  %-*s", l->name, "kernel and shape");
    for (i = 0; i < NUMBERS; i++)
        if (l->shown[i])
            printf(" %*s", COUNTS[i].columns, COUNTS[i].name);
    printf("  %*s %*s%s\n", SCORE_COLUMNS, "worst", SCORE_COLUMNS, "recorded", l->with_baseline ? "  baseline" : "");
}

/* first: the reason of the row before, which is not said again. Returns the one that stands now. */
static const char *print_op_row(const struct td_op_replay_row *r, const struct layout *l, const char *first)
{
    char new_score[32], base[32], rec[32], name[64 + TD_OP_SHAPE_WORDS];
    struct td_buf clean = TD_BUF_INIT(CLEAN_MAX);
    int64_t count[NUMBERS];
    int i;

    counts_of(r, count);
    if (!count[0])
        return first;
    format_score(r->worst, new_score, sizeof new_score);
    format_score(r->worst_baseline, base, sizeof base);
    format_score(r->worst_recorded, rec, sizeof rec);
    snprintf(name, sizeof name, "%s %s", r->kernel, r->shape);
    td_clean_line(name, sizeof name, &clean);
    printf("  %-*.*s", l->name, l->name, td_buf_str(&clean));
    td_buf_release(&clean);
    for (i = 0; i < NUMBERS; i++)
        if (l->shown[i])
            printf(" %*lld", COUNTS[i].columns, (long long)count[i]);
    printf("  %*s%s%*s", SCORE_COLUMNS, new_score, r->over ? "!" : " ", SCORE_COLUMNS, rec);
    if (l->with_baseline)
        printf(" %*s", SCORE_COLUMNS, base);
    printf("\n");
    if (!r->reason[0])
        return first;
    td_clean_line(r->reason, sizeof r->reason, &clean);
    printf("    first: %s\n", strcmp(r->reason, first) ? td_buf_str(&clean) : "as above");
    td_buf_release(&clean);
    return r->reason;
}

static void print_ops_left_out(const struct td_op_replay_stats *o)
{
    const struct { int64_t n; const char *why; } parts[] = {
        {o->not_matching, "do not match --only"}, {o->other_shards, "belong to other shards"},
        {o->not_sampled, "left out by --max-ops (every kernel, shape and M class keeps its share, and one op at least)"},
        {o->not_planned, o->planned_by && !strcmp(o->planned_by, "time") ? "left out by --time" : "left out by --plan"},
        {o->late ? o->share.planned - o->replayed : 0, "not begun: --time was over before the plan was done"},
        {o->skipped_after_crashes, "not tried after crashes or hangs of their kernel and shape"},
        {o->bad_frames, "frames of the recording are corrupt, their ops are broken"},
    };
    size_t i;

    for (i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].n)
            printf("  %lld %s\n", (long long)parts[i].n, parts[i].why);
}

static void print_ops(const struct td_replay_options *opt, const struct td_fixture_replay_result *r)
{
    const struct td_op_replay_stats *o = &r->ops;
    const struct layout layout = layout_of(o, opt->baseline_build != NULL);
    const char *first = "";
    int64_t over = 0;
    size_t i;

    printf("ops       %s%s%s%s%s\n", o->provider, opt->build ? " " : "",
           opt->build ? opt->build : "", o->build[0] ? ": " : "", o->build);
    if (opt->baseline_build)
        printf("baseline  %s %s%s%s\n", o->baseline_provider, opt->baseline_build,
               o->baseline_build[0] ? ": " : "", o->baseline_build);
    if (o->references[0])
        printf("reference %s\n", o->references);
    print_heading(&layout);
    for (i = 0; i < o->n_rows; i++) {
        first = print_op_row(&o->rows[i], &layout, first);
        over += o->rows[i].over;
    }
    print_ops_left_out(o);
    if (over)
        printf("  ! %lld op%s %s over %s limit: the floor, or 4 times the worst of the %s, if that is larger\n",
               (long long)over, td_plural(over), td_is(over),
               over == 1 ? "its" : "their", opt->baseline_build ? "baseline" : "recorded output");
    printf("  %lld op%s judged in %.1f s (%.0f ops/s)", (long long)o->replayed, td_plural(o->replayed), o->seconds,
           o->seconds > 0 ? (double)o->replayed / o->seconds : 0);
    if (o->timed)
        printf(", %lld timed in both builds", (long long)o->timed);
    printf("%s worst: largest error in units of what rounding explains\n", o->timed ? "\n " : ";");
}

void td_summary_print(const struct td_replay_options *opt, const struct td_fixture_replay_result *r)
{
    if (r->did_requests && !td_log_quiet())
        print_requests(r);
    if (r->did_ops && !td_log_quiet())
        print_ops(opt, r);
    if (r->path[0])
        printf("%s\n", r->path);
}
