/* recording_summary.c - what `record` prints at its end: medians and counts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/number_words.h"
#include "format/coverage.h"
#include "wire/collapse.h"
#include "wire/derive.h"

static void add_times(struct td_phase_summary *p, const struct td_exchange *x)
{
    int64_t ttft = td_exchange_ttft_ns(x);
    double gaps[4096];
    size_t i, n = td_exchange_gaps(x, gaps, sizeof gaps / sizeof *gaps);

    if (ttft >= 0)
        td_samples_add(&p->ttft_ns, (double)ttft);
    for (i = 0; i < n; i++)
        td_samples_add(&p->itl_ns, gaps[i]);
}

/* A request that failed took its time as well. */
static void widen(struct td_phase_summary *p, const struct td_exchange *x)
{
    if (x->t_sent_ns && (!p->t_first_ns || x->t_sent_ns < p->t_first_ns))
        p->t_first_ns = x->t_sent_ns;
    if (x->t_end_ns > p->t_last_ns)
        p->t_last_ns = x->t_end_ns;
}

void td_recording_summary_add(struct td_recording_summary *s, const struct td_exchange *x)
{
    struct td_phase_summary *p = &s->phase[x->phase];
    struct td_collapse c;

    p->requests++;
    p->failed += x->error != NULL;
    p->tokens += x->n_tokens;
    p->complete_tokens += x->error ? 0 : x->n_tokens;
    widen(p, x);
    if (x->error && !*p->first_error)
        snprintf(p->first_error, sizeof p->first_error, "%.60s: %.130s", x->prompt_id, x->error);
    if (x->error && !*s->first_error)
        snprintf(s->first_error, sizeof s->first_error, "%.60s: %.220s", x->prompt_id, x->error);
    if (!x->error && x->t_sent_ns)
        add_times(p, x);
    td_client_lag_add(&s->lag, x);
    if (x->phase == TD_PHASE_WARMUP)
        return;
    s->ids_incomplete += !x->error && x->token_ids && !x->ids_complete;
    s->without_logprobs += !x->error && !x->logprobs;
    td_collapse_check(x, NULL, &c);
    s->collapsed += c.hard;
    if (c.hard && !*s->first_collapse)
        snprintf(s->first_collapse, sizeof s->first_collapse, "%.60s: %.220s", x->prompt_id, c.why);
}

void td_recording_summary_release(struct td_recording_summary *s)
{
    int i;

    for (i = 0; i < 3; i++) {
        td_samples_release(&s->phase[i].ttft_ns);
        td_samples_release(&s->phase[i].itl_ns);
    }
    td_client_lag_release(&s->lag);
    memset(s, 0, sizeof *s);
}

static const char *format_ms(double ns, char *out, size_t n)
{
    if (isnan(ns))
        snprintf(out, n, "-");
    else
        snprintf(out, n, ns < 1e7 ? "%.2f ms" : ns < 1e9 ? "%.1f ms" : "%.0f ms", ns / 1e6);
    return out;
}

static void print_phase(struct td_phase_summary *p, const char *name, size_t prompts, FILE *to)
{
    char ttft[32], itl[32], rate[32] = "-";
    double s = (double)(p->t_last_ns - p->t_first_ns) / 1e9;

    if (!p->requests)
        return;
    if (s > 0)
        snprintf(rate, sizeof rate, "%.0f", (double)p->complete_tokens / s);
    fprintf(to, "%-8s %8zu %9lld %7lld %8lld %12s %12s %9s\n", name, prompts,
            (long long)p->requests, (long long)p->failed, (long long)p->tokens,
            format_ms(td_samples_quantile(&p->ttft_ns, 0.5), ttft, sizeof ttft),
            format_ms(td_samples_quantile(&p->itl_ns, 0.5), itl, sizeof itl), rate);
}

/* The coverage of a fixture that held only this recording. */
static struct td_coverage coverage_of(const struct td_tap_client_state *ops)
{
    return (struct td_coverage){.stored = ops->ops_kept,
                                .seen = ops->ops_kept + ops->ops_dropped,
                                .unread = ops->gemms_other,
                                .graphs = ops->graphs - ops->graphs_read};
}

/* Print a sentence with a name of the server's process, which may hold anything. */
static void print_named(FILE *to, const char *before, const char *name, const char *behind)
{
    struct td_buf clean = TD_BUF_INIT(1 << 14);

    td_clean_line(name, 500, &clean);
    fprintf(to, "%s%s%s", before, td_buf_str(&clean), behind);
    td_buf_release(&clean);
}

static void print_unknown_layouts(const struct td_tap_client_state *ops, FILE *to)
{
    if (!ops->ops_layout_unknown)
        return;
    fprintf(to, "weights  the layout of those of %lld ops is unknown", (long long)ops->ops_layout_unknown);
    print_named(to, " (", ops->unknown_layout,
                "). These ops are recorded with the server's bytes, and cannot be replayed\n"
                "         To replay them, start the server with the tap in it (--run, --tap-env), "
                "and name its model (--checkpoint)\n");
}

static void print_no_names(const struct td_tap_client_state *ops, FILE *to)
{
    if (ops->ops_kept && ops->no_layer_names[0])
        print_named(to, "weights  no op has the name of its layer: ", ops->no_layer_names, "\n");
}

/* Were graphs seen by twins, not by copies within them (--graphs)? */
static bool has_twins(const struct td_tap_client_state *ops)
{
    return ops->twins || ops->graphs_no_twin || ops->graphs_no_room;
}

static void print_graphs(const struct td_tap_client_state *ops, bool all, FILE *to)
{
    int64_t unread = coverage_of(ops).graphs;

    if (ops->graphs_read)
        fprintf(to, "graphs   %lld launched that were read when they were captured\n",
                (long long)ops->graphs_read);
    if (unread > 0)
        fprintf(to,
                "graphs   %lld launched whose GEMMs were not seen and are not counted: start the "
                "server with record --graphs, or vLLM with --enforce-eager\n",
                (long long)unread);
    if (ops->graphs_no_room)
        fprintf(to,
                "         %lld of these had no twin, for all twins together take what they may: more is "
                "TD_TAP_TWINS_MIB in the server's environment\n",
                (long long)ops->graphs_no_room);
    if (ops->graphs_no_twin)
        fprintf(to,
                "         %lld of these can have no twin: the driver refuses it, or nothing in them can be "
                "copied. Start vLLM with --enforce-eager; record --graphs sees them too, unless they hold "
                "other graphs\n",
                (long long)ops->graphs_no_twin);
    if (ops->ops_rotation)
        fprintf(to,
                "         %lld GEMMs were left out by rotation: a graph has more of them than are copied "
                "at a time, and all come in turn%s. TD_TAP_TWINS_MIB in the server's environment gives "
                "more room\n",
                (long long)ops->ops_rotation,
                all ? "; so this is a sample, though all were asked for" : "");
    if (ops->graphs_read && ops->ops_graph)
        fprintf(to,
                has_twins(ops) ? "         %lld GEMMs in graphs were not copied: their graphs had no "
                                 "twin yet, or none at all, or what follows them begins before they end\n"
                               : "         %lld GEMMs in graphs had no room for their copies (more is "
                                 "--graphs-mib), are of a form that is not read, or in a graph that holds "
                                 "another one (vLLM: --enforce-eager)\n",
                (long long)ops->ops_graph);
}

static void print_launches(const struct td_tap_client_state *ops, bool all, FILE *to)
{
    int64_t gemms = ops->gemms + ops->gemms_other;

    if (ops->no_launches)
        fprintf(to, "kernels  launches on a GPU were not watched (--launches off): only what torch's "
                    "operators and cuBLAS announce was seen\n");
    if (gemms)
        fprintf(to,
                "kernels  %lld launches on the GPU; of %lld that multiply matrices the tap reads "
                "%lld (%.1f %%)\n",
                (long long)ops->launches, (long long)gemms, (long long)ops->gemms,
                100.0 * (double)ops->gemms / (double)gemms);
    if (ops->gemms_other) {
        fprintf(to, "         not read, counted by name: %lld", (long long)ops->gemms_other);
        print_named(to, ", most of all ", ops->other, "\n");
    }
    print_graphs(ops, all, to);
}

/* What part of the GPU's time the recorded ops are. */
static void print_gpu_time(const struct td_tap_client_gpu_time *t, FILE *to)
{
    const double all = (double)t->ns / 100;

    if (t->why[0])
        print_named(to, "gpu      the share of kernels in its time is not known: ", t->why, "\n");
    if (!t->launches)
        return;
    fprintf(to,
            "gpu      of its time in %lld ms, recorded ops are %.1f %%, attention %.1f %%, all else %.1f %% "
            "(fixture show -a)\n",
            (long long)(t->window_ns / 1000000), (double)t->recorded_ns / all,
            (double)t->attention_ns / all,
            (double)(t->ns - t->recorded_ns - t->attention_ns) / all);
    if (t->unread[0])
        print_named(to, "         multiply, and are not recorded: ", t->unread, "\n");
    if (t->unknown[0])
        print_named(to, "         multiply, and may be recorded or not: ", t->unknown, "\n");
    if (t->lost)
        fprintf(to, "         %lld launches more had no time: they are not in these shares\n",
                (long long)t->lost);
}

static void print_operators(const struct td_tap_client_state *ops, FILE *to)
{
    if (!ops->operators)
        return;
    fprintf(to, "torch    calls of operators that are counted by name and not recorded: %lld",
            (long long)ops->operator_calls);
    print_named(to, ", most of all ", ops->most_called, " (fixture show -a)\n");
}

/* What of the ops is no product; of llama.cpp, on whose graph nothing is hidden, nothing is said. */
static void print_beside(const struct td_tap_client_state *ops, FILE *to)
{
    if (ops->all_kinds && (ops->launches || ops->no_launches || ops->operators))
        fprintf(to,
                "beside   %lld of these ops stand beside GEMMs: calls of vLLM's own operators. What "
                "torch compiles (Triton), as vLLM does by default with most of them, is not seen\n",
                (long long)ops->ops_beside);
}

/* What is kept of outputs that repeat. */
static void print_digests(const struct td_tap_client_state *ops, FILE *to)
{
    if (!ops->rehearsed)
        return;
    fprintf(to,
            "outputs  %lld of %lld repeat and are kept as digests, which leaves out %.1f MiB; %lld are whole\n"
            "         What an old output was that a new build does not give, --baseline-build alone tells then\n",
            (long long)ops->digests, (long long)ops->ops_kept, (double)ops->digest_bytes / (1 << 20),
            (long long)(ops->ops_kept - ops->digests));
    if (ops->rehearsal_full)
        fprintf(to, "         there was no room to remember all ops of the rehearsal; outputs of the others are whole\n");
}

static void print_ops(const struct td_tap_client_state *ops, bool all, FILE *to)
{
    const struct td_coverage c = coverage_of(ops);

    fprintf(to, "ops      %lld kept in %lld step%s, %lld dropped", (long long)ops->ops_kept,
            (long long)ops->steps_kept, td_plural((int64_t)ops->steps_kept),
            (long long)ops->ops_dropped);
    if (ops->launches && !isnan(td_coverage_percent(&c)))
        fprintf(to, "; %.1f %% of the %s that were seen", td_coverage_percent(&c),
                ops->all_kinds ? "ops" : "GEMMs");
    if (ops->rested_ms)
        fprintf(to, "; for %.1f s, between samples, none were looked at",
                (double)ops->rested_ms / 1000);
    fputc('\n', to);
    if (ops->ops_ring)
        fprintf(to,
                "         %lld of those dropped most likely found no room on their way here. What "
                "the fixture holds is sound; %s\n"
                "         To keep more, record less at a time (--budget, --layers), or give more "
                "room (--ring-mib)\n",
                (long long)ops->ops_ring,
                all ? "but all were asked for, so it is incomplete and no gate passes its ops."
                    : "its sample is smaller by these.");
}

void td_recording_summary_print(struct td_recording_summary *s, size_t prompts,
                                const struct td_tap_client_state *ops, bool all,
                                const char *no_tap, FILE *to)
{
    fprintf(to, "%-8s %8s %9s %7s %8s %12s %12s %9s\n", "phase", "prompts", "requests", "failed",
            "tokens", "TTFT median", "ITL median", "tokens/s");
    print_phase(&s->phase[TD_PHASE_TIMED], "timed", prompts, to);
    print_phase(&s->phase[TD_PHASE_TAPPED], "tapped", prompts, to);
    td_client_lag_print(&s->lag, "lag      ", false, to);
    if (!ops) {
        print_named(to, "ops      none: ", no_tap, "\n");
        return;
    }
    print_ops(ops, all, to);
    print_digests(ops, to);
    print_beside(ops, to);
    print_unknown_layouts(ops, to);
    print_no_names(ops, to);
    print_launches(ops, all, to);
    print_gpu_time(&ops->gpu_time, to);
    print_operators(ops, to);
}
