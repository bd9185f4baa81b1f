/* report_next.c - what a person can do next: commands to copy, or words.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A word in capitals in a command (OLD_BUILD) stands for what nobody told us. */
#include <stdio.h>
#include <string.h>

#include "common/fixture_folders.h"
#include "common/fs.h"
#include "common/replay_args.h"
#include "common/shell_command.h"
#include "differ/comparison.h"
#include "differ/lane_ops.h"
#include "differ/lane_tokens.h"
#include "differ/report_advice.h"
#include "format/planned.h"
#include "report/report.h"

#define FEW_OPS 10 /* runs of so few ops at the default do not show whether a kernel repeats */

static void add_next(struct td_jw *w, const char *text, const char *command)
{
    td_jw_obj(w, NULL);
    td_jw_cstr(w, "text", text);
    td_jw_cstr(w, "command", command);
    td_jw_end(w);
}

static const cJSON *replay_of(const struct td_comparison *c, int side)
{
    return td_json_get(td_fixture_manifest(c->side[side].fx), "replay");
}

/* The build that the candidate is compared with: the one that ran beside it, else that of BASE,
 * where BASE is a replay. NULL: not known. */
static const char *old_build(const struct td_comparison *c)
{
    return td_json_get_str(replay_of(c, 1), "baseline_build",
                           td_json_get_str(replay_of(c, 0), "build", NULL));
}

/* Do the builds of add_builds() hold the old one? */
static bool names_old_build(const struct td_comparison *c)
{
    return c->gate_builds ? strstr(c->gate_builds, "--baseline-build") != NULL : old_build(c) != NULL;
}

/* Append the thresholds by which this comparison was judged. */
static void add_policy(const struct td_comparison *c, struct td_buf *command)
{
    td_shell_add_option(command, "--policy", c->policy_file);
}

/* Append the builds of this comparison, and its policy, as options of gate: as gate handed them on, else as the
 * candidate's manifest has them. */
static void add_builds(const struct td_comparison *c, struct td_buf *command)
{
    const char *build = td_json_get_str(replay_of(c, 1), "build", NULL);

    if (c->gate_builds) {
        td_buf_addf(command, " %s", c->gate_builds);
        return;
    }
    td_shell_add_option(command, "--build", build);
    if (!build)
        td_shell_add_option(command, "--provider",
                            td_json_get_str(replay_of(c, 1), "provider", NULL));
    td_shell_add_option(command, "--baseline-build", old_build(c));
    add_policy(c, command);
}

static void begin_gate(const struct td_comparison *c, struct td_buf *command)
{
    td_shell_add_program(command, "gate");
    td_shell_add_word(command, td_fixture_dir(c->side[0].fx));
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* A folder that is not there yet: "repro", "repro-2" ... */
static const char *free_folder(char out[32])
{
    int i;

    snprintf(out, 32, "repro");
    for (i = 2; i < 1000 && td_fs_exists(out); i++)
        snprintf(out, 32, "repro-%d", i);
    return out;
}

/* The command that gates the cut alone. With the old build beside it an op is judged as it was
 * here; without, one that differs between runs is inconclusive, and takes more runs. Only its results count, for one op
 * is too little to judge speed by. */
static void advise_gate_cut(const struct td_comparison *c, const char *cut, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    const bool needs_old = found->blame.first->candidate.unstable > 0;
    struct td_buf command = TD_BUF_INIT(1 << 16);

    td_shell_add_program(&command, "gate");
    td_shell_add_word(&command, cut);
    add_builds(c, &command);
    if (needs_old)
        td_buf_adds(&command, " " TD_MORE_RUNS);
    if (names_old_build(c) || needs_old)
        td_buf_addf(&command, "%s --lanes ops", names_old_build(c) ? "" : " --baseline-build OLD_BUILD");
    add_next(w, TD_NEXT_GATE_CUT, td_buf_str(&command));
    td_buf_release(&command);
}

/* The first bad op as a fixture of its own, to show to others and to try a repair on. */
static void advise_extract(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    struct td_buf command = TD_BUF_INIT(1 << 16);
    struct td_excess excess;
    char folder[32];

    if (!c->lane[TD_LANE_OPS].asked || !found->blamed)
        return;
    td_op_excess(found->blame.first, &excess);
    if (found->blame.first->bias && !excess.of)
        return; /* one op alone shows no bias */
    if (c->coverage.extract) {
        add_next(w, "mend the kernel, build it, and gate this cut again; when it passes, gate the "
                    "whole recording, too, where you have it", NULL);
        return;
    }
    td_shell_add_program(&command, "fixture");
    td_shell_add_word(&command, "extract");
    td_shell_add_word(&command, td_fixture_dir(c->side[0].fx));
    td_buf_addf(&command, " -o %s --op %lld --no-requests", free_folder(folder),
                (long long)found->blame.first->op);
    add_next(w, TD_NEXT_EXTRACT, td_buf_str(&command));
    advise_gate_cut(c, folder, w);
    td_buf_release(&command);
}

/* What runs ops of a kind: the beginning of its name, and words for --build. */
static const struct { const char *kind, *build; } RUNS[] = {
    {"ggml_", "a library or folder of ggml's"},
    {"gptq_gemm", "a libtdkernels.so, a venv with vLLM, or GPU code (.fatbin, .cubin, .hsaco)"},
    {"gemm", "GPU code (.fatbin, .cubin, .hsaco) beside its cuBLAS or hipBLAS"},
};

static const char *find_runs(const char *kind)
{
    size_t i;

    for (i = 0; i < sizeof RUNS / sizeof *RUNS; i++)
        if (!strncmp(kind, RUNS[i].kind, strlen(RUNS[i].kind)))
            return RUNS[i].build;
    return NULL;
}

/* No op could be run: say which builds run such ops. Where nothing does, only answers can decide. */
static void advise_on_unsupported(const struct td_comparison *c, struct td_jw *w)
{
    struct td_buf command = TD_BUF_INIT(1 << 16), text = TD_BUF_INIT(1 << 12);
    const char *kind, *build;
    size_t i;

    for (i = 0; i < c->ops.n && c->ops.op[i].status == TD_OP_UNSUPPORTED; i++)
        ;
    if (!c->lane[TD_LANE_OPS].asked || !c->ops.n || i < c->ops.n)
        return;
    kind = c->ops.op[0].kind;
    build = find_runs(kind);
    begin_gate(c, &command);
    if (build) {
        td_buf_addf(&text, "no op could run; a build that has %.60s, and runs here, can be %s",
                    kind, build);
        td_buf_adds(&command, " --build BUILD");
    } else {
        td_buf_addf(&text, "no op could run: this version replays no %.60s ops; judge the answers",
                    kind);
        td_buf_adds(&command, " --server HOST:PORT");
    }
    add_policy(c, &command);
    add_next(w, td_buf_str(&text), NULL);
    add_next(w, build ? "gate with such a build" : "judge the answers", td_buf_str(&command));
    td_buf_release(&command);
    td_buf_release(&text);
}

static void advise_on_ops(const struct td_comparison *c, struct td_jw *w)
{
    const struct td_ops_found *found = c->lane[TD_LANE_OPS].measured;
    struct td_buf command = TD_BUF_INIT(1 << 16);
    size_t i, digests = 0, runs = 0, varies = 0;

    for (i = 0; i < c->ops.n; i++) {
        runs += c->ops.op[i].result == TD_RESULT_UNDECIDED &&
                strstr(c->ops.op[i].why, TD_MORE_RUNS) != NULL;
        varies += c->ops.op[i].candidate.unstable > 0;
        digests += c->ops.op[i].result == TD_RESULT_UNDECIDED &&
                   strstr(c->ops.op[i].why, "--baseline-build") != NULL;
    }
    if (c->lane[TD_LANE_OPS].asked && runs) {
        begin_gate(c, &command);
        add_builds(c, &command);
        td_buf_adds(&command, " --lanes ops " TD_MORE_RUNS);
        add_next(w, "run each op more often: it shows whether the kernels repeat",
                 td_buf_str(&command));
        td_buf_clear(&command);
    }
    if (c->lane[TD_LANE_OPS].asked && digests && !names_old_build(c)) {
        begin_gate(c, &command);
        add_builds(c, &command);
        td_buf_addf(&command, " --baseline-build OLD_BUILD%s",
                    varies && c->ops.n < FEW_OPS ? " " TD_MORE_RUNS : "");
        add_next(w, "name the old build: it shows what the old kernels give", td_buf_str(&command));
    }
    if (c->lane[TD_LANE_OPS].asked && found->numerics.format_undecided)
        add_next(w, "accept the other format: numerics.accept_format_change in a policy", NULL);
    td_buf_release(&command);
}

/* ---- answers --------------------------------------------------------------------------------- */

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
        add_policy(c, &command);
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

/* ---- speed ----------------------------------------------------------------------------------- */

/* Results are right, and speed is all that regressed. */
static void advise_on_speed(const struct td_comparison *c, struct td_jw *w)
{
    struct td_buf command = TD_BUF_INIT(1 << 16);
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        if (c->lane[i].asked && (c->lane[i].verdict == TD_REGRESSED) != (i == TD_LANE_SPEED))
            return;
    if (!c->lane[TD_LANE_SPEED].asked)
        return;
    begin_gate(c, &command);
    if (c->gate_servers)
        td_buf_addf(&command, " %s", c->gate_servers);
    add_builds(c, &command);
    td_buf_adds(&command, " --lanes speed --verbose");
    add_next(w, "time both again, and see each row",
             c->gate_servers || old_build(c) ? td_buf_str(&command) : NULL);
    add_next(w, "if that is its price: gate --accept REASON --until DATE, or --fail-on wrong "
                "(docs/ci.md)", NULL);
    td_buf_release(&command);
}

/* ---- a recording that broke off -------------------------------------------------------------- */

/* "monday-2" for the fixture monday or monday.tdz. */
static void add_next_folder(const struct td_comparison *c, struct td_buf *command)
{
    const char *dir = td_fixture_dir(c->side[0].fx);
    struct td_buf name = TD_BUF_INIT(1 << 16);
    size_t stem = td_fixture_pack_stem(dir), len = stem ? stem : strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    td_buf_addf(&name, "%.*s-2", (int)len, dir);
    td_shell_add_option(command, "-o", td_buf_str(&name));
    td_buf_release(&name);
}

/* What is missing in the baseline no gate can make up for. The recorded address is not repeated: a
 * fixture does not say where requests go. */
static void advise_again(const struct td_comparison *c, struct td_jw *w)
{
    const cJSON *m = td_fixture_manifest(c->side[0].fx), *suite = td_json_get(m, "suite");
    const char *gemms = td_json_get_str(td_json_get(m, "options"), "gemms", "auto"),
               *name = td_json_get_str(suite, "name", "quick");
    struct td_buf command = TD_BUF_INIT(1 << 16);
    char repeat[24];

    if (c->verdict == TD_PASS || c->coverage.extract || td_fixture_is_whole(m))
        return;
    td_shell_add_program(&command, "record");
    td_buf_adds(&command, " --server HOST:PORT");
    add_next_folder(c, &command);
    if (!strcmp(name, "full"))
        td_buf_adds(&command, " --suite full");
    else if (strcmp(name, "quick")) /* the default */
        td_buf_adds(&command, " --suite FILE");
    if (td_json_get(suite, "repeat")) {
        snprintf(repeat, sizeof repeat, "%lld", (long long)td_json_get_i64(suite, "repeat", 0));
        td_shell_add_option(&command, "--repeat", repeat);
    }
    if (strcmp(gemms, "auto"))
        td_shell_add_option(&command, "--gemms", gemms);
    if (td_json_get_bool(td_json_get(m, "tap"), "present", false))
        td_buf_adds(&command, " --run -- SERVER_COMMAND");
    add_next(w, TD_NEXT_AGAIN, td_buf_str(&command));
    td_buf_release(&command);
}

void td_advice_write_next(const struct td_comparison *c, struct td_jw *w)
{
    td_jw_arr(w, "next");
    advise_extract(c, w);
    advise_again(c, w);
    advise_on_unsupported(c, w);
    advise_on_ops(c, w);
    advise_on_forks(c, w);
    advise_on_speed(c, w);
    td_jw_end(w);
}
