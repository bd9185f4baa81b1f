/* report_advice.c - what a comparison did not check, and what a person can do next.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/report_advice.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/shell_command.h"
#include "differ/comparison.h"
#include "differ/lane_ops.h"
#include "differ/lane_tokens.h"
#include "report/report.h"

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
    snprintf(words, sizeof words, "%lld launches of CUDA graphs", (long long)c->coverage.graphs);
    td_jw_cstr(w, NULL, words);
}

void td_advice_write_not_checked(const struct td_comparison *c, struct td_jw *w)
{
    td_jw_arr(w, "not_checked");
    if (!c->lane[TD_LANE_TOKENS].asked)
        td_jw_cstr(w, NULL, "answers");
    if (!c->lane[TD_LANE_OPS].asked)
        td_jw_cstr(w, NULL, "kernels");
    if (!c->lane[TD_LANE_SPEED].asked)
        td_jw_cstr(w, NULL, "speed");
    if (c->lane[TD_LANE_OPS].asked) {
        if (!c->coverage.all_kinds)
            td_jw_cstr(w, NULL, "attention, norms, sampling");
        add_graphs(c, w);
        add_sampled(c, w);
    }
    td_jw_end(w);
}

/* ---- next ------------------------------------------------------------------------------------ */

static void add_next(struct td_jw *w, const char *text, const char *command)
{
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "text", text);
    td_jw_cstr(w, "command", command);
    td_jw_end(w);
}

/* A folder that is not there yet: "repro", "repro-2" ... */
static const char *free_folder(char out[32])
{
    int i;

    snprintf(out, 32, "repro");
    for (i = 2; i < 1000 && td_fs_exists(out); i++)
        snprintf(out, 32, "repro-%d", i);
    return out;
}

/* The first bad op as a fixture of its own, to show to others and to try a repair on. */
static void advise_extract(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    struct td_buf command = TD_BUF_INIT(1 << 16);
    char folder[32];

    if (!c->lane[TD_LANE_OPS].asked || !found->blamed || c->coverage.extract)
        return;
    td_shell_add_program(&command, "fixture");
    td_shell_add_word(&command, "extract");
    td_shell_add_word(&command, td_fixture_dir(c->side[0].fx));
    td_buf_addf(&command, " -o %s --op %lld --no-requests", free_folder(folder),
                (long long)found->blame.first->op);
    add_next(w, TD_NEXT_EXTRACT, td_buf_str(&command));
    td_buf_release(&command);
}

/* Text alone cannot tell rounding from a bug, and names no kernel: say what does. */
static void advise_on_forks(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_tokens *t = c->lane[TD_LANE_TOKENS].measured;
    struct td_buf command = TD_BUF_INIT(1 << 16);

    if (!c->lane[TD_LANE_TOKENS].asked || c->lane[TD_LANE_TOKENS].verdict <= TD_PASS || !t->n_forks ||
        (c->lane[TD_LANE_OPS].asked && c->lane[TD_LANE_OPS].verdict == TD_REGRESSED))
        return;
    if (!c->lane[TD_LANE_OPS].asked && c->base_ops.n) {
        td_shell_add_program(&command, "gate");
        td_shell_add_word(&command, td_fixture_dir(c->side[0].fx));
        td_buf_adds(&command, " --server HOST:PORT --build BUILD");
        add_next(w, "judge the kernels as well", td_buf_str(&command));
    } else if (!c->base_ops.n) {
        add_next(w, "record the server's GEMMs, too (record --run -- SERVER ...), and gate with --build",
                 NULL);
    } else if (!c->coverage.all_kinds && c->lane[TD_LANE_OPS].asked) {
        add_next(w, "record with --all-ops: it shows the op at which the difference begins", NULL);
    }
    if (t->n_noise < 2 && c->lane[TD_LANE_TOKENS].verdict == TD_INCONCLUSIVE)
        add_next(w, "--calibrate REPLAY of a build known to be right shows how often rounding forks",
                 NULL);
    td_buf_release(&command);
}

static void advise_on_ops(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    size_t i, digests = 0;

    for (i = 0; i < c->ops.n; i++)
        digests += c->ops.op[i].result == TD_RESULT_UNDECIDED &&
                   strstr(c->ops.op[i].why, "--baseline-build") != NULL;
    if (c->lane[TD_LANE_OPS].asked && digests)
        add_next(w, "--baseline-build PATH shows what the old kernels give", NULL);
    if (c->lane[TD_LANE_OPS].asked && found->numerics.format_changed && found->numerics.undecided)
        add_next(w, "accept the other format: numerics.accept_format_change in a policy", NULL);
}

void td_advice_write_next(const struct td_comparison *c, struct td_jw *w)
{
    td_jw_arr(w, "next");
    advise_extract(c, w);
    advise_on_ops(c, w);
    advise_on_forks(c, w);
    td_jw_end(w);
}
