/* report_text.c - the report for a person: what was compared, lanes, ops, speed, blame, verdict; the answers are lane_tokens.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "differ/report_page.h"

#define SPEED_SHOWN 10

static const char *const COLOURS[] = {"", "\033[32m", "\033[33m", "\033[31m", "\033[31m"}; /* by verdict */

void td_page_title(const struct td_page *p, const char *text)
{
    fprintf(p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

static void paint(const struct td_page *p, enum td_verdict v, const char *text, int width)
{
    fprintf(p->out, "%s%-*s%s", p->colour ? COLOURS[v] : "", width, text, p->colour && v != TD_NOT_JUDGED ? "\033[0m" : "");
}

/* ---- what was compared --------------------------------------------------------------------------------------------- */

static void print_side(const struct td_page *p, const struct td_side *s)
{
    static const char *const ROLE[TD_N_ROLES] = {"baseline", "baseline, live", "candidate", "calibration"};
    const cJSON *m = td_fixture_manifest(s->fx), *server = td_json_get(m, "server"), *replay = td_json_get(m, "replay");
    const char *model = td_json_get_str(server, "model", ""), *version = td_json_get_str(server, "version", "");
    const char *build = td_json_get_str(replay, "build", ""), *base_build = td_json_get_str(replay, "baseline_build", "");

    fprintf(p->out, "  %-14s %s", ROLE[s->role], td_fixture_dir(s->fx));
    if (*model)
        fprintf(p->out, "  %s", model);
    if (*td_json_get_str(server, "kind", ""))
        fprintf(p->out, " on %s%s%s", td_json_get_str(server, "kind", ""), *version ? " " : "", version);
    if (*build)
        fprintf(p->out, "  build %s", build);
    if (*base_build)
        fprintf(p->out, " against %s", base_build);
    fprintf(p->out, "\n");
}

static void print_lanes(const struct td_page *p, const struct td_weighing *w)
{
    int i, j;

    td_page_title(p, "lanes");
    for (i = 0; i < TD_N_LANES; i++) {
        const struct td_lane *l = &w->lane[i];

        fprintf(p->out, "  %-9s ", td_lane_name(l->id));
        paint(p, l->asked ? l->verdict : TD_NOT_JUDGED, td_verdict_name(l->asked ? l->verdict : TD_NOT_JUDGED), 13);
        if (l->n_notes == 0)
            fprintf(p->out, "%s\n", l->asked ? "" : "not asked for");
        for (j = 0; j < l->n_notes; j++)
            fprintf(p->out, "%*s%s\n", j ? 25 : 0, "", l->notes[j].text);
    }
    if (w->bad_frames)
        fprintf(p->out, "  %zu frames of the fixtures are corrupt and were skipped (fixture verify DIR names them)\n", w->bad_frames);
}

/* ---- ops ----------------------------------------------------------------------------------------------------------- */

static int by_execution(const void *a, const void *b)
{
    const struct td_judged_op *p = *(const struct td_judged_op *const *)a, *q = *(const struct td_judged_op *const *)b;

    if (p->step >= 0 && q->step >= 0 && p->step != q->step)
        return p->step < q->step ? -1 : 1;
    return (p->op > q->op) - (p->op < q->op);
}

static const char *number(double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "-");
    else if (isinf(v))
        snprintf(out, n, "broken");
    else
        snprintf(out, n, "%.3g", v);
    return out;
}

/* " M=20"; nothing for a kind that has no M. */
static const char *rows_words(const struct td_judged_op *op, char *out, size_t n)
{
    out[0] = '\0';
    if (op->m >= 0)
        snprintf(out, n, " M=%lld", (long long)op->m);
    return out;
}

/* One by one, in order of execution. */
static void print_bad_ops(const struct td_page *p, const struct td_weighing *w)
{
    char m[32], layer[300];
    const struct td_judged_op **bad = malloc((w->ops.n + 1) * sizeof(*bad));
    size_t i, n = 0, shown;

    if (!bad)
        return;
    for (i = 0; i < w->ops.n; i++)
        if (w->ops.op[i].status != TD_OP_NONE && w->ops.op[i].result != TD_RESULT_OK && w->ops.op[i].result != TD_RESULT_COMPARED)
            bad[n++] = &w->ops.op[i];
    qsort(bad, n, sizeof(*bad), by_execution);
    shown = n > TD_PAGE_SHOWN && !p->verbose ? TD_PAGE_SHOWN : n;
    if (n)
        fprintf(p->out, "\n");
    for (i = 0; i < shown; i++)
        fprintf(p->out, "  op %-6lld %s %s%s%s%s: %s: %s\n", (long long)bad[i]->op, bad[i]->kind, bad[i]->shape, rows_words(bad[i], m, sizeof m),
                bad[i]->layer ? " " : "", bad[i]->layer ? td_judged_op_layer_words(bad[i], "", layer, sizeof layer) : "", td_op_result_name(bad[i]->result), bad[i]->why);
    if (shown < n)
        fprintf(p->out, "  (%zu of %zu shown; --verbose shows all)\n", shown, n);
    free(bad);
}

/* Each build by the R1 of its own format; what the format itself costs is the distance to R0. */
static void print_formats(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_numerics *n = &w->numerics;
    char change[200], a[24], b[24];
    size_t i;

    if (!n->format_changed)
        return;
    td_page_title(p, "formats that changed (relative L2 distance to exact arithmetic, worst op)");
    for (i = 0; i < n->n; i++) {
        const struct td_op_group *g = &n->group[i];

        if (!g->format_changed)
            continue;
        td_op_rounding_change(g->new_rounding, g->old_rounding, change, sizeof change);
        fprintf(p->out, "  %s %s %s: new %s, old %s; %s\n", g->kind, g->shape, td_m_class_name(g->m_class), number(g->new_r0, a, sizeof a),
                number(g->old_r0, b, sizeof b), change);
    }
}

/* Ops that have no reference, a line for each kind; groups stand in order of their kinds. */
static void print_compared(const struct td_page *p, const struct td_numerics *n)
{
    size_t i, ops = 0, equal = 0, skipped = 0;
    double worst = NAN;
    char a[24];

    if (n->compared + n->not_compared == 0)
        return;
    td_page_title(p, "ops without a reference (their outputs beside the baseline's, under equal input)");
    fprintf(p->out, "  %-24s %6s %6s %12s  %s\n", "kind", "ops", "equal", "not compared", "largest relative departure");
    for (i = 0; i < n->n; i++) {
        const struct td_op_group *g = &n->group[i];

        ops += g->compared;
        equal += g->compared_equal;
        skipped += g->not_compared;
        worst = fmax(worst, g->departs);
        if (i + 1 < n->n && strcmp(g->kind, n->group[i + 1].kind) == 0)
            continue;
        if (ops + skipped)
            fprintf(p->out, "  %-24s %6zu %6zu %12zu  %s\n", g->kind, ops, equal, skipped, number(worst, a, sizeof a));
        ops = equal = skipped = 0;
        worst = NAN;
    }
}

static void print_ops(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_numerics *n = &w->numerics;
    size_t i;
    int kind = 6, shape = 5;
    char a[24], b[24], c[24], d[24], e[24], f[24];

    if (w->lane[TD_LANE_OPS].asked)
        print_compared(p, n);
    if (n->judged == 0 || !w->lane[TD_LANE_OPS].asked)
        return;
    for (i = 0; i < n->n; i++) {
        kind = (int)strlen(n->group[i].kind) > kind ? (int)strlen(n->group[i].kind) : kind;
        shape = (int)strlen(n->group[i].shape) > shape ? (int)strlen(n->group[i].shape) : shape;
    }
    td_page_title(p, "ops (error in units of correct rounding: worst element, and rms of the worst row, column or tile)");
    fprintf(p->out, "  %-*s  %-*s  %-8s %6s %6s %6s | %8s %8s %8s | %8s %8s %8s\n", kind, "kernel", shape, "N x K", "M", "ops", "worse",
            "equal", "new", "old", "limit", "rms new", "rms old", "limit");
    for (i = 0; i < n->n; i++) {
        const struct td_op_group *g = &n->group[i];

        if (g->judged == 0 && g->compared + g->not_compared)
            continue;
        fprintf(p->out, "  %-*s  %-*s  %-8s %6zu ", kind, g->kind, shape, g->shape, td_m_class_name(g->m_class), g->judged);
        snprintf(a, sizeof a, "%6zu", g->worse);
        paint(p, g->worse ? TD_REGRESSED : TD_NOT_JUDGED, a, 6);
        fprintf(p->out, " %6zu | %8s %8s %8s | %8s %8s %8s%s\n", g->bit_equal, number(g->new_score, a, sizeof a),
                number(g->old_score, b, sizeof b), number(g->limit, c, sizeof c), number(g->new_rms, d, sizeof d),
                number(g->old_rms, e, sizeof e), number(g->limit_rms, f, sizeof f),
                g->judged == 0 ? "  not replayed" : g->undecided + g->broken ? "  some undecided" : "");
    }
    print_bad_ops(p, w);
    print_formats(p, w);
}

/* ---- speed --------------------------------------------------------------------------------------------------------- */

static const char *value(enum td_metric m, double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "-");
    else if (m == TD_THROUGHPUT)
        snprintf(out, n, "%.1f tok/s", v);
    else if (v >= 1e6)
        snprintf(out, n, "%.2f ms", v / 1e6);
    else
        snprintf(out, n, "%.2f us", v / 1e3);
    return out;
}

/* Totals first, then by how much slower. */
static int by_weight(const void *a, const void *b)
{
    const struct td_speed_row *p = *(const struct td_speed_row *const *)a, *q = *(const struct td_speed_row *const *)b;

    if (p->total != q->total)
        return p->total ? -1 : 1;
    if ((p->verdict == TD_REGRESSED) != (q->verdict == TD_REGRESSED))
        return p->verdict == TD_REGRESSED ? -1 : 1;
    if (p->metric != q->metric && (p->metric < TD_OP_HOT || q->metric < TD_OP_HOT || p->total))
        return p->metric < q->metric ? -1 : 1;
    return (p->effect.est < q->effect.est) - (p->effect.est > q->effect.est);
}

static void print_speed_row(const struct td_page *p, const struct td_speed_row *r, int label)
{
    char a[32], b[32], interval[48] = "too few pairs";
    bool op = r->metric == TD_OP_HOT || r->metric == TD_OP_COLD; /* many sizes in a row: two medians would mislead */

    if (r->effect.reached)
        snprintf(interval, sizeof interval, "[%+.1f %%, %+.1f %%]", r->effect.lo * 100, r->effect.hi * 100);
    fprintf(p->out, "  %-14s  %-*s  %12s  %12s  %+6.1f %%  %-19s %5zu  ", td_metric_name(r->metric), label, r->label,
            value(r->metric, r->base, a, sizeof a), op ? "" : value(r->metric, r->now, b, sizeof b), r->effect.est * 100, interval,
            r->pairs.n);
    paint(p, r->verdict, r->verdict == TD_REGRESSED ? "slower" : r->faster && r->verdict != TD_NOT_JUDGED ? "faster" : "", 0);
    fprintf(p->out, "\n");
}

static void print_speed(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_speed *s = &w->speed;
    const struct td_speed_row **rows;
    size_t i, n_shown = 0, n_ops = 0;
    int label = 8;

    if (s->n == 0 || (!w->lane[TD_LANE_SPEED].asked && !w->lane[TD_LANE_TOKENS].asked))
        return;
    rows = malloc(s->n * sizeof(*rows));
    if (!rows)
        return;
    for (i = 0; i < s->n; i++) {
        rows[i] = &s->row[i];
        label = (int)strlen(s->row[i].label) > label ? (int)strlen(s->row[i].label) : label;
    }
    qsort(rows, s->n, sizeof(*rows), by_weight);
    td_page_title(p, s->server_judged || s->op_pairs ? "speed (+ is slower; all intervals hold together)" : "speed (+ is slower; information, see lanes)");
    fprintf(p->out, "  %-14s  %-*s  %12s  %12s  %8s  %-19s %5s\n", "", label, "what", "old", "new", "slower", "interval", "n");
    for (i = 0; i < s->n; i++) {
        bool op = rows[i]->metric >= TD_OP_HOT, shown = p->verbose || rows[i]->total || (op ? n_ops < SPEED_SHOWN : s->server_judged);

        n_ops += op && shown;
        n_shown += shown;
        if (shown)
            print_speed_row(p, rows[i], label);
    }
    if (n_shown < s->n)
        fprintf(p->out, "  (%zu of %zu rows shown; --verbose shows all)\n", n_shown, s->n);
    free(rows);
}

/* ---- blame, limits, verdict ---------------------------------------------------------------------------------------- */

/* Whose row it was. */
static void print_place(const struct td_page *p, const struct td_blame *b)
{
    int i;

    if (*b->prompt_id) {
        fprintf(p->out, "           while the server %s prompt %s, repeat %d", b->decode ? "answered" : "read", b->prompt_id, b->repeat);
        if (b->position >= 0)
            fprintf(p->out, ", at position %d", b->position);
        fprintf(p->out, b->inferred ? " (inferred)\n" : "\n");
    } else if (b->n_among) {
        fprintf(p->out, "           while the server computed %s", b->n_sharing > 1 ? "together, and it is not known which row is whose, prompts" : "prompt");
        for (i = 0; i < b->n_among; i++)
            fprintf(p->out, "%s %s", i ? "," : "", b->among[i]);
        fprintf(p->out, "%s%s\n", b->n_among == TD_BLAME_AMONG && b->n_sharing > b->n_among ? " and more" : "", b->inferred ? " (inferred)" : "");
    }
}

static void print_blame(const struct td_page *p, const struct td_weighing *w)
{
    char layer[300];
    const struct td_blame *b = &w->blame;
    const struct td_judged_op *op = b->first;
    int i;

    if (!w->blamed || !w->lane[TD_LANE_OPS].asked)
        return;
    td_page_title(p, "blame");
    if (b->good == 0)
        fprintf(p->out, "  pattern  every op that could be decided is bad (%zu)\n", b->bad);
    else if (b->rule.n_terms == 0 && b->good * 20 < b->bad)
        fprintf(p->out, "  pattern  nearly every op: %zu bad, %zu good\n", b->bad, b->good);
    else if (b->rule.n_terms == 0)
        fprintf(p->out, "  pattern  none: no simple rule separates %zu bad ops from %zu good ones\n", b->bad, b->good);
    else
        fprintf(p->out, "  pattern  %s: holds for %zu of %zu bad ops and %zu of %zu good ones\n", b->text, b->rule.bad_hit, b->bad,
                b->rule.good_hit, b->good);
    for (i = 0; i < b->n_same && b->good; i++)
        fprintf(p->out, "           %s says the same of these ops\n", b->same_text[i]);
    fprintf(p->out, "  first    op %lld", (long long)op->op);
    if (op->step >= 0)
        fprintf(p->out, ", step %lld", (long long)op->step);
    fprintf(p->out, ": %s/%s, %s, M=%lld%s%s%s\n           %s\n", td_judged_op_layer_words(op, "unknown layer", layer, sizeof layer), op->kind, op->shape,
            (long long)op->m, op->symbol ? " (" : "", op->symbol ? op->symbol : "", op->symbol ? ")" : "", op->why);
    print_place(p, b);
    if (b->first_nan && b->first_nan != op)
        fprintf(p->out, "  first NaN or Inf: op %lld, %s/%s, %s, M=%lld: %lld NaN, %lld Inf in its output\n", (long long)b->first_nan->op,
                b->first_nan->layer ? b->first_nan->layer : "unknown layer", b->first_nan->kind, b->first_nan->shape,
                (long long)b->first_nan->m, (long long)b->first_nan->candidate.nan, (long long)b->first_nan->candidate.inf);
}

static void print_limits(const struct td_page *p, const struct td_weighing *w)
{
    const struct td_policy *q = &w->policy;

    td_page_title(p, "limits");
    fprintf(p->out, "  policy %s: ops worse when over a floor (default %.3g, rms %.3g) and over %.3g x the baseline's own worst;\n"
                    "  forks: level %.3g, gap at most %.3g nats; scores: NLL +%.3g, of one answer +%.3g; speed: ops +%.3g %% beyond %.3g %%, servers +%.3g %% beyond %.3g %%\n",
            q->name, q->floor, q->floor_rms, q->factor, q->tokens_alpha, q->gap_max, q->scores_nll_max, q->scores_text_nll_max, q->ops_effect * 100, q->ops_noise * 100,
            q->server_effect * 100, q->start_spread * 100);
}

void td_report_verdict_line(const struct td_weighing *w, struct td_buf *out)
{
    const struct td_lane *l = w->lane;

    td_buf_addf(out, "verdict: %s", td_verdict_name(w->verdict == TD_NOT_JUDGED ? TD_INCONCLUSIVE : w->verdict));
    if (l[TD_LANE_TOKENS].asked && w->tokens.attempts) {
        td_buf_addf(out, " tokens=%zu/%zu", w->tokens.n_forks, w->tokens.answers);
        if (w->tokens.n_lost)
            td_buf_addf(out, " lost=%zu/%zu", w->tokens.n_lost, w->tokens.attempts);
    }
    if (l[TD_LANE_COLLAPSE].asked && w->collapses.answers)
        td_buf_addf(out, " collapsed=%zu", w->collapses.n);
    if (l[TD_LANE_SCORES].asked && w->rescore.n)
        td_buf_addf(out, " nll=%+.4f", td_rescore_shown(w->rescore.answer.shift));
    if (!isnan(w->speed.itl) && (l[TD_LANE_SPEED].asked || l[TD_LANE_TOKENS].asked))
        td_buf_addf(out, " itl=%+.1f%%%s", w->speed.itl * 100, w->speed.server_judged && l[TD_LANE_SPEED].asked ? "" : "(info)");
    if (l[TD_LANE_OPS].asked && w->numerics.judged)
        td_buf_addf(out, " ops=%zu/%zu", w->numerics.worse, w->numerics.judged);
    if (l[TD_LANE_SPEED].asked && w->speed.op_pairs) {
        size_t i, slower = 0, rows = 0;

        for (i = 0; i < w->speed.n; i++) {
            rows += !w->speed.row[i].total;
            slower += !w->speed.row[i].total && w->speed.row[i].verdict == TD_REGRESSED;
        }
        td_buf_addf(out, " slower=%zu/%zu", slower, rows);
    }
    if (w->blamed && l[TD_LANE_OPS].asked)
        td_buf_addf(out, " first=%s/%s", w->blame.first->layer ? w->blame.first->layer : "?", w->blame.first->kind);
}

void td_report_text(const struct td_weighing *w, FILE *out, bool colour)
{
    struct td_page p = {out, colour, w->verbose};
    struct td_buf line = TD_BUF_INIT(1 << 16);
    size_t i;

    td_page_title(&p, "compared");
    for (i = 0; i < w->n_sides; i++)
        print_side(&p, &w->side[i]);
    td_page_lost(&p, w);
    td_page_collapses(&p, w);
    td_page_forks(&p, w);
    td_page_noise(&p, w);
    td_page_scores(&p, w);
    print_ops(&p, w);
    print_speed(&p, w);
    print_blame(&p, w);
    print_limits(&p, w);
    print_lanes(&p, w);
    td_report_verdict_line(w, &line);
    fprintf(out, "\n%s%s%s\n", colour ? COLOURS[w->verdict] : "", td_buf_str(&line), colour ? "\033[0m" : "");
    td_buf_release(&line);
}
