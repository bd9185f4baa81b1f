/* main.c - record: options, signals, exit codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "recorder/tap_client/layer_filter.h"
#include "recorder/record.h"

#define FLIGHT_MIB 256

static volatile sig_atomic_t stop, keep;

/* First: end in order. Second: now, and take along the server that --run started. */
static void on_signal(int number)
{
    (void)number;
    if (stop) {
        if (td_started_group > 0)
            kill(-(pid_t)td_started_group, SIGKILL);
        _exit(130);
    }
    stop = 1;
}

static void on_keep(int number)
{
    (void)number;
    keep = 1;
}

static void catch_signals(bool flight)
{
    struct sigaction sa = {.sa_handler = on_signal}, usr = {.sa_handler = on_keep, .sa_flags = SA_RESTART};

    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if (flight)
        sigaction(SIGUSR1, &usr, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int td_record_gemms(const char *text, struct td_record_options *opt, struct td_error *err)
{
    char *end;
    double percent = strtod(text, &end);

    opt->mode.take = TD_TAP_CLIENT_SAMPLE;
    opt->mode.percent = 0;
    opt->mode.time_ppm = 0;
    opt->gemms_required = false;
    if (!strcmp(text, "auto")) {
        opt->mode.time_ppm = TD_TAP_CLIENT_AUTO_TIME_PPM;
        return TD_OK;
    }
    if (!strcmp(text, "off")) {
        opt->mode.take = TD_TAP_CLIENT_OFF;
        return TD_OK;
    }
    opt->gemms_required = true;
    if (!strcmp(text, "all")) {
        opt->mode.take = TD_TAP_CLIENT_ALL;
        return TD_OK;
    }
    if (end == text || strcmp(end, "%") || !(percent > 0 && percent <= 100))
        return td_fail(err, TD_EINVAL, "--gemms %s: give auto, off, all, or a share of steps such as 10%%", text);
    opt->mode.percent = percent;
    return TD_OK;
}

int td_record_scores(const char *text, struct td_record_options *opt, struct td_error *err)
{
    char *end;

    opt->scores = !strcmp(text, "on") ? TD_SCORES_PROMPTS : 0;
    if (!strcmp(text, "on") || !strcmp(text, "off"))
        return TD_OK;
    opt->scores = strtoll(text, &end, 10);
    if (end == text || *end || opt->scores < 1 || opt->scores > TD_SUITE_MAX_PROMPTS)
        return td_fail(err, TD_EINVAL, "--scores %s: give on, off, or how many answers, 1 to %d", text, TD_SUITE_MAX_PROMPTS);
    return TD_OK;
}

static int check_all_ops(struct td_record_options *opt, struct td_error *err)
{
    opt->gemms_required |= opt->mode.all_kinds;
    return opt->mode.all_kinds && opt->mode.take == TD_TAP_CLIENT_OFF ? td_fail(err, TD_EINVAL, "--all-ops and --gemms off exclude each other") : TD_OK;
}

static int check_graphs(bool graphs, bool starts, struct td_record_options *opt, struct td_error *err)
{
    if (graphs && !opt->graphs_mib)
        opt->graphs_mib = TD_TAP_CLIENT_GRAPHS_MIB;
    if (opt->graphs_mib && !starts)
        return td_fail(err, TD_EINVAL, "--graphs is chosen when the server starts: give it with --run, or with --tap-env before you start the server");
    return TD_OK;
}

static int check_flight(struct td_record_options *opt, struct td_error *err)
{
    opt->mode.flight_mib = opt->flight == TD_ARG_ALONE ? FLIGHT_MIB : (uint32_t)opt->flight;
    if (opt->flight && opt->mode.take == TD_TAP_CLIENT_OFF)
        return td_fail(err, TD_EINVAL, "--flight and --gemms off exclude each other");
    if (opt->layers && opt->mode.take == TD_TAP_CLIENT_OFF)
        return td_fail(err, TD_EINVAL, "--layers and --gemms off exclude each other");
    return opt->layers ? td_layer_filter_check(opt->layers, err) : TD_OK;
}

static int print_tap_env(int64_t graphs_mib, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);
    int rc = td_tap_client_env_print(graphs_mib, &b, err);

    if (!rc)
        fputs(td_buf_str(&b), stdout);
    td_buf_release(&b);
    return rc;
}

/* Whoever hides text hides that of the tokens that a scored answer names, too; and whoever hides what a chat answers, the token that
 * its scoring, a completion, ends with. */
static void redact_scores(const char **paths)
{
    bool answers = false;
    size_t n = 0;

    for (; paths[n]; n++)
        answers |= !strncmp(paths[n], "choices", 7);
    if (!n)
        return;
    paths[n++] = "**.decoded_token";
    if (answers)
        paths[n++] = "choices[*].text";
    paths[n] = NULL;
}

static void to_array(const struct td_arg_list *list, const char **out)
{
    int i;

    for (i = 0; i < list->n; i++)
        out[i] = list->item[i];
    out[list->n] = NULL;
}

static int check_headers(const struct td_arg_list *list, struct td_error *err)
{
    int i;

    for (i = 0; i < list->n; i++)
        if (!strchr(list->item[i], ':') || strpbrk(list->item[i], "\r\n") || *list->item[i] == ':')
            return td_fail(err, TD_EINVAL, "--header \"%s\": give NAME:VALUE", list->item[i]);
    return TD_OK;
}

static int fail(const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "record", "%s", err->msg);
    return td_exit_code(err->code);
}

/* A sample must not disturb; who asks for all gets all, unless they name a budget. */
static int64_t budget_of(const struct td_record_options *o)
{
    if (o->budget_mib < 0 || (!o->budget_mib && o->mode.take == TD_TAP_CLIENT_ALL))
        return -1;
    return (int64_t)(o->budget_mib * (1 << 20));
}

int main(int argc, char **argv)
{
    struct td_record_options o = {.server = "localhost:8000", .suite = "quick", .gemms = "auto", .repeat = 5, .tapped_repeat = 1,
                                  .logprobs = 5, .timeout_s = 300};
    struct td_arg_list headers = {.n = 0}, redact = {.n = 0};
    const char *api = "auto", *scores = "on";
    bool tap_env = false, run = false, graphs = false;
    const struct td_arg table[] = {
        {"server", 's', TD_ARG_STR, &o.server, "HOST:PORT", "the server to record, or its URL (default localhost:8000)", 0, 0},
        {"out", 'o', TD_ARG_STR, &o.out, "DIR", "the fixture to write (default fixtures/MODEL-TIME)", 0, 0},
        {"suite", 0, TD_ARG_STR, &o.suite, "quick|full|FILE", "the prompts: built in, or a file of JSON lines (default quick)", 0, 0},
        {"repeat", 'k', TD_ARG_I64, &o.repeat, "K", "times that each prompt is sent: the noise floor (default 5)", 1, 10000},
        {"concurrency", 'c', TD_ARG_I64, &o.concurrency, "N", "requests in flight (default: as the suite says)", 1, 4096},
        {"max-tokens", 'n', TD_ARG_I64, &o.max_tokens, "N", "length of the answers (default: as the suite says, else 64)", 1, 1 << 20},
        {"logprobs", 0, TD_ARG_I64, &o.logprobs, "K", "alternatives per token, 0 for none (default 5)", 0, 100},
        {"scores", 0, TD_ARG_STR, &scores, "on|off|N", "have the server score its first answer to each prompt, token by token, where it can (default on: at most 256)", 0, 0},
        {"seed", 0, TD_ARG_I64, &o.seed, "N", "seed sent with every request (default 0)", 0, 0},
        {"ignore-eos", 0, TD_ARG_FLAG, &o.ignore_eos, NULL, "answers of full length", 0, 0},
        {"model", 'm', TD_ARG_STR, &o.model, "NAME", "model to ask for (default: the first that the server lists)", 0, 0},
        {"api", 0, TD_ARG_STR, &api, "auto|vllm|openai|llamacpp|sglang", "the server's dialect (default auto)", 0, 0},
        {"header", 'H', TD_ARG_LIST, &headers, "NAME:VALUE", "sent with every request; may be given again", 0, 0},
        {"timeout", 't', TD_ARG_NUM, &o.timeout_s, "S", "wait so long for the model to load, and for each next byte (default 300)", 0.1, 86400},
        {"wait", 'w', TD_ARG_FLAG, &o.wait, NULL, "also wait while nobody listens there yet", 0, 0},
        {"gemms", 0, TD_ARG_STR, &o.gemms, "auto|off|all|P%", "inputs of GEMMs, through the tap: 10 % of the steps and on a GPU 0.5 % of the time at most, none, all, a share", 0, 0},
        {"layers", 0, TD_ARG_STR, &o.layers, "LIST", "of these layers only: numbers, parts of names, both: 0-3,mlp.down_proj,8.*_proj", 0, 0},
        {"flight", 0, TD_ARG_MAYBE, &o.flight, "[=MB]", "on a GPU: keep what led to a bad output, an answer that collapsed, or SIGUSR1 (default 256)", 1, 65536},
        {"all-ops", 0, TD_ARG_FLAG, &o.mode.all_kinds, NULL, "of llama.cpp: every node of the graph, not matrix products only; needs the tap", 0, 0},
        {"tapped-repeat", 0, TD_ARG_I64, &o.tapped_repeat, "K", "passes over the suite with the tap armed (default 1)", 1, 1000},
        {"budget", 0, TD_ARG_NUM, &o.budget_mib, "MIB", "what the tap may copy a second; -1 no limit (default: of a sample 64, with --gemms all no limit)", -1, 1 << 20},
        {"graphs", 0, TD_ARG_FLAG, &graphs, NULL, "of a GPU: also what runs in CUDA graphs; with --run or --tap-env, since graphs are captured when a server starts", 0, 0},
        {"graphs-mib", 0, TD_ARG_I64, &o.graphs_mib, "MIB", "the same, with so much of the GPU's memory for copies (default 256)", 1, 65536},
        {"ring-mib", 0, TD_ARG_I64, &o.ring_mib, "MIB", "room on the way from the tap to record, also on a GPU: twice A and C of the largest op (default 16, of a GPU and llama.cpp 64)", 1, 1024},
        {"tap-socket", 0, TD_ARG_STR, &o.tap_socket, "PATH", "the tap's socket, where it is not found by itself", 0, 0},
        {"checkpoint", 0, TD_ARG_STR, &o.checkpoint, "DIR", "the model's files, or its GGUF file, to name layers (default: as the server says)", 0, 0},
        {"weights-by-reference", 0, TD_ARG_FLAG, &o.weights_by_reference, NULL, "do not copy weights that match the checkpoint", 0, 0},
        {"redact", 0, TD_ARG_LIST, &redact, "PATH", "overwrite this part of JSON bodies, \"messages[*].content\"; may be given again", 0, 0},
        {"no-code", 0, TD_ARG_FLAG, &o.no_code, NULL, "do not keep the compiled code of the recorded GPU kernels (fixture code)", 0, 0},
        {"no-text", 0, TD_ARG_FLAG, &o.no_text, NULL, "keep ids, times and lengths, but no text", 0, 0},
        {"run", 0, TD_ARG_FLAG, &run, NULL, "start the server that follows \"--\", with the tap in it; end it afterwards", 0, 0},
        {"tap-env", 0, TD_ARG_FLAG, &tap_env, NULL, "print what a shell must eval before it starts a server with the tap", 0, 0},
        {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
    };
    struct td_args args = {.program = "record", .usage = "record [--server HOST:PORT] [-o DIR] [options] [--run -- COMMAND ...]",
        .about = "Record a live LLM server: send a suite of prompts several times, keep every byte and its time, and the inputs of\n"
                 "the server's GEMMs where the tap is in it. The fixture's path is the last line of the output.",
        .table = table,
        .examples = "  record --server localhost:8000\n"
                    "  record -o good --run -- demo-server --model DIR --port 8000\n"
                    "  eval \"$(record --tap-env)\"; demo-server --model DIR &   then: record --server localhost:8000\n"
                    "  record -o good --run -- llama-server -m model.gguf --port 8000\n"
                    "  record -o good --run -- vllm serve MODEL --port 8000\n"
                    "  record -o good --gemms all --run -- vllm serve MODEL --enforce-eager --linear-backend exllama\n"
                    "\nThe tap knows td_gptq_gemm, llama.cpp and vLLM on a CPU, in shared libraries, and vLLM's gptq and Marlin kernels on an\n"
                    "NVIDIA GPU (docs/kernels.md); of other servers the requests are recorded.\n"};
    struct td_error err = {0};
    int rc;

    td_log_program("record");
    rc = td_args_parse(&args, argc, argv, &err);
    if (rc > 0)
        return TD_EXIT_OK;
    if (!rc && args.n_rest)
        rc = td_fail(&err, TD_EINVAL, "\"%s\" is no option; see record --help", args.rest[0]);
    if (!rc && run != (args.command != NULL))
        rc = td_fail(&err, TD_EINVAL, "--run and \"-- COMMAND ...\" belong together; see record --help");
    if (!rc)
        rc = check_graphs(graphs, run || tap_env, &o, &err);
    if (!rc)
        rc = td_api_parse(api, &o.api, &err);
    if (!rc)
        rc = td_record_gemms(o.gemms, &o, &err);
    if (!rc)
        rc = td_record_scores(scores, &o, &err);
    if (!rc)
        rc = check_all_ops(&o, &err);
    if (!rc)
        rc = check_flight(&o, &err);
    if (!rc)
        rc = check_headers(&headers, &err);
    if (!rc && tap_env)
        rc = print_tap_env(o.graphs_mib, &err);
    if (rc || tap_env)
        return rc ? fail(&err) : TD_EXIT_OK;
    to_array(&headers, o.headers);
    to_array(&redact, o.redact);
    if (o.scores)
        redact_scores(o.redact);
    o.command = args.command;
    o.mode.budget_bytes_per_s = budget_of(&o);
    o.keep = &keep;
    catch_signals(o.flight != 0);
    return td_record(&o, &stop, &err) ? fail(&err) : TD_EXIT_OK;
}
