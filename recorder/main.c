/* main.c - record: options, signals, exit codes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/memory.h"
#include "common/outfile.h"
#include "common/outside_fixtures.h"
#include "common/proc.h"
#include "common/streams.h"
#include "format/header_args.h"
#include "format/redact.h"
#include "recorder/dry_run.h"
#include "recorder/passive.h"
#include "recorder/record.h"
#include "recorder/record_load.h"
#include "recorder/run_server.h"
#include "recorder/tap_client/server_env.h"

/* ---- the command line ------------------------------------------------------------------------ */

/* What it says. */
static struct {
    struct td_record_options o;
    struct td_passive_options passive;
    struct td_arg_list headers, redact, redact_headers, show_headers, only_paths;
    const char *api, *scores, *launches, *gpu_time, *sample, *outputs;
    bool tap_env, run, graphs, is_passive;
} given = {
    .o = {.suite = "quick", .connections = "pooled", .repeat = 5, .starts = 1,
          .tapped_repeat = 1, .logprobs = 5, .timeout_s = 300},
    .api = "auto",
    .scores = "on",
    .launches = "on",
    .gpu_time = "on",
    .outputs = "all",
    .passive = {.interface = "any"},
};

static const struct td_arg table[] = {
    {"server", 's', TD_ARG_STR, &given.o.server, "HOST:PORT",
     "the server to record, or its URL (default localhost:8000)", 0, 0},
    {"out", 'o', TD_ARG_STR, &given.o.out, "DIR",
     "the fixture to write (default fixtures/MODEL-TIME)", 0, 0},
    {"suite", 0, TD_ARG_STR, &given.o.suite, "quick|full|FILE",
     "the prompts: built in, or a file of JSON lines (default quick)", 0, 0},
    {"repeat", 'k', TD_ARG_I64, &given.o.repeat, "K",
     "times that each prompt is sent: the noise floor (default 5)", 1, 10000},
    {"starts", 0, TD_ARG_I64, &given.o.starts, "N",
     "with --run: start the server N times, and send --repeat to each start, so that a gate on this host can tell a slower server from "
     "one that was started again (default 1)", 1, 100},
    {"concurrency", 'c', TD_ARG_I64, &given.o.concurrency, "N",
     "requests in flight, the next one when one has ended (default: as the suite says)", 1, 4096},
    {"rate", 0, TD_ARG_NUM, &given.o.rate, "R",
     "send R requests a second, each at its time whatever the server does (default: the next when "
     "those before are answered)", 1e-4, TD_ARRIVAL_RATE_MAX},
    {"arrival", 0, TD_ARG_STR, &given.o.arrival, "constant|poisson|gamma[:SHAPE]",
     "with --rate: the gaps between requests, drawn from --seed (default poisson; gamma:1 is poisson, "
     "a smaller SHAPE is burstier)", 0, 0},
    {"requests", 0, TD_ARG_I64, &given.o.requests, "N",
     "requests to be timed, the prompts in turn (default: --repeat of each)", 1, TD_RECORD_MOST_REQUESTS},
    {"warmup", 0, TD_ARG_I64, &given.o.warmup, "N",
     "behind the short request that comes first, send N of the suite before those that are timed", 1, 10000},
    {"connections", 0, TD_ARG_STR, &given.o.connections, "pooled|never",
     "keep connections for later requests, or make a new one for each (default pooled)", 0, 0},
    {"max-tokens", 'n', TD_ARG_I64, &given.o.max_tokens, "N",
     "length of the answers (default: as the suite says, else 64)", 1, 1 << 20},
    {"logprobs", 0, TD_ARG_I64, &given.o.logprobs, "K",
     "alternatives per token; 0: none (default 5)", 0, 100},
    {"scores", 0, TD_ARG_STR, &given.scores, "on|off|N",
     "have the server score its first answer to each prompt, where it can (default "
     "on: at most 256)", 0, 0},
    {"seed", 0, TD_ARG_I64, &given.o.seed, "N", "seed sent with every request (default 0)", 0, 0},
    {"ignore-eos", 0, TD_ARG_FLAG, &given.o.ignore_eos, NULL,
     "let every answer run to its full length", 0, 0},
    {"model", 'm', TD_ARG_STR, &given.o.model, "NAME",
     "model to ask for (default: the first that the server lists)", 0, 0},
    {"api", 0, TD_ARG_STR, &given.api, "auto|vllm|openai|llamacpp|sglang",
     "the server's dialect (default auto)", 0, 0},
    {"header", 'H', TD_ARG_LIST, &given.headers, "NAME:VALUE",
     "sent with every request, and overwritten in the fixture; may be given again; @FILE: a header a "
     "line, which nobody sees in the list of processes",
     0, 0},
    {"show-header", 0, TD_ARG_LIST, &given.show_headers, "NAME",
     "of a header given by -H: it is no secret, keep its value", 0, 0},
    {"redact-header", 0, TD_ARG_LIST, &given.redact_headers, "NAME",
     "also overwrite the value of this header, of answers too; may be given again", 0, 0},
    {"timeout", 't', TD_ARG_NUM, &given.o.timeout_s, "S",
     "time to wait for the model to load, and for each next piece of an answer; a whole answer "
     "may take ten times as long (default 300)",
     0.1, 86400},
    {"max-body", 0, TD_ARG_I64, &given.o.max_body_mib, "MIB",
     "longest answer that is read; a longer one is cut off and counts as failed (default 256; what "
     "is not streamed: 64 at most)",
     1, 65536},
    {"wait", 'w', TD_ARG_MAYBE, &given.o.wait, "[=SECONDS]",
     "also wait while nothing listens there yet (default: --timeout)", 1, 86400},
    {"gemms", 0, TD_ARG_STR, &given.o.gemms, "auto|off|all|P%",
     "steps whose GEMM inputs the tap records: a sample (10 %; on a GPU at most "
     "0.5 % of the time), none, all, a share (default auto; with --passive off)", 0, 0},
    {"outputs", 0, TD_ARG_STR, &given.outputs, "all|digest",
     "digest: send the suite once more, and of outputs that repeat bit for bit store a hash, but for a few of each kernel "
     "and layer; needs --gemms all (default all)", 0, 0},
    {"layers", 0, TD_ARG_STR, &given.o.layers, "LIST",
     "record ops of these layers only, by number or part of the name: "
     "0-3,mlp.down_proj,8.*_proj", 0, 0},
    {"ops", 0, TD_ARG_STR, &given.o.ops, "FILE",
     "record operators of your own, too: what this file says of them (docs/own-operators.md)", 0, 0},
    {"flight", 0, TD_ARG_MAYBE, &given.o.flight, "[=MB]",
     "on a GPU: dump what led to a bad output, a collapsed answer or SIGUSR1, from "
     "a ring of MB (default 256)", 1, 65536},
    {"all-ops", 0, TD_ARG_FLAG, &given.o.mode.all_kinds, NULL,
     "record what stands beside matrix products, too: of llama.cpp every node of the graph, of vLLM "
     "on a GPU its own operators (norms and the like); needs the tap", 0, 0},
    {"tapped-repeat", 0, TD_ARG_I64, &given.o.tapped_repeat, "K",
     "times that the suite is sent with the tap armed (default 1)", 1, 1000},
    {"budget", 0, TD_ARG_NUM, &given.o.budget_mib, "MIB",
     "MiB that the tap may copy a second; -1: no limit (default: 64 for a sample, "
     "no limit with --gemms all)", -1, 1 << 20},
    {"graphs", 0, TD_ARG_FLAG, &given.graphs, NULL,
     "on a GPU: put copies into the server's CUDA graphs, where twins of them do not do; needs "
     "--run or --tap-env, for servers capture graphs when they start", 0, 0},
    {"graphs-mib", 0, TD_ARG_I64, &given.o.graphs_mib, "MIB",
     "the same, with so much GPU memory for copies (default 256)", 1, 65536},
    {"launches", 0, TD_ARG_STR, &given.launches, "on|off",
     "of an NVIDIA GPU: off leaves CUPTI to a profiler, and records only what torch's operators and "
     "cuBLAS announce (default on)", 0, 0},
    {"gpu-time", 0, TD_ARG_STR, &given.gpu_time, "on|off",
     "of an NVIDIA GPU: after all other requests, time its kernels for half a second, and say how much of "
     "that the recorded GEMMs take (default on; not with --launches off)", 0, 0},
    {"ring-mib", 0, TD_ARG_I64, &given.o.ring_mib, "MIB",
     "buffer between the tap and record: at least twice A and C of the largest op "
     "(default 16; for a GPU and llama.cpp 64, for a GPU with --gemms all 256)", 1, 1024},
    {"tap-socket", 0, TD_ARG_STR, &given.o.tap_socket, "PATH",
     "the tap's socket, where it is not found by itself", 0, 0},
    {"checkpoint", 0, TD_ARG_STR, &given.o.checkpoint, "DIR",
     "the model's files, or its GGUF file, to name layers (default: as the server "
     "says)", 0, 0},
    {"weights-by-reference", 0, TD_ARG_FLAG, &given.o.weights_by_reference, NULL,
     "of weights that match the checkpoint store a reference, not the bytes", 0, 0},
    {"redact", 0, TD_ARG_LIST, &given.redact, "PATH",
     "overwrite this part of JSON bodies, \"messages[*].content\"; may be given "
     "again", 0, 0},
    {"allow-failures", 0, TD_ARG_FLAG, &given.o.allow_failures, NULL,
     "accept failed requests and a server that ends: exit 0, and the fixture says so", 0, 0},
    {"dry-run", 0, TD_ARG_FLAG, &given.o.dry_run, NULL,
     "say what would be sent and recorded, and how large it becomes; record nothing", 0, 0},
    {"no-code", 0, TD_ARG_FLAG, &given.o.no_code, NULL,
     "do not store the compiled code of the recorded GPU kernels (see fixture code)", 0, 0},
    {"no-text", 0, TD_ARG_FLAG, &given.o.no_text, NULL,
     "store ids, times and lengths: of what a server says only what is known to be no text", 0, 0},
    {"run", 0, TD_ARG_FLAG, &given.run, NULL,
     "start the server that follows \"--\", with the tap in it; end it afterwards", 0, 0},
    {"server-log", 0, TD_ARG_STR, &given.o.server_log, "FILE",
     "where the output of the server that --run starts goes; - is stderr (default: OUT.server.log "
     "beside the fixture, without -o fixtures/server-TIME.log)", 0, 0},
    {"passive", 0, TD_ARG_FLAG, &given.is_passive, NULL,
     "send nothing: record what others send to the server, from the wire (docs/passive.md)", 0, 0},
    {"interface", 0, TD_ARG_STR, &given.passive.interface, "NAME",
     "with --passive: where to listen (default any)", 0, 0},
    {"duration", 0, TD_ARG_SECONDS, &given.o.duration_s, "TIME",
     "60, 60s, 15m, 2h: with --rate: the requests of so long; without: repeat the suite until that time is "
     "over; with --passive: end after it (default: at a signal)", 0.1, 31536000},
    {"pcap", 0, TD_ARG_STR, &given.passive.file, "FILE",
     "send nothing: record the traffic in a file of tcpdump -w or dumpcap; - is standard input", 0, 0},
    {"only-path", 0, TD_ARG_LIST, &given.only_paths, "PATH",
     "with --passive or --pcap: keep requests of this path, and no others (default: those that generate text); "
     "may be given again", 0, 0},
    {"sample", 0, TD_ARG_STR, &given.sample, "PERCENT",
     "with --passive or --pcap: keep the requests of so many connections, \"1%\", chosen by their addresses and ports", 0, 0},
    {"max-exchanges", 0, TD_ARG_I64, &given.passive.max_exchanges, "N",
     "with --passive or --pcap: end after so many exchanges", 1, 1 << 30},
    {"tap-env", 0, TD_ARG_FLAG, &given.tap_env, NULL,
     "print what a shell must eval before it starts a server with the tap", 0, 0},
    {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
};

static const struct td_arg_env environment[] = {
    {"TD_TAP_LIBRARY", "the tap to put into the server (default: libtapedeck-tap.so beside {record})"},
    {"TD_TAP_DIR", "folder of the tap's sockets (default: below XDG_RUNTIME_DIR, else /tmp); the "
                   "server must have the same value"},
    {"TD_TAP_GRAPHS", "in a server with the tap: MiB of GPU memory for copies inside CUDA graphs; "
                      "--graphs sets it"},
    {"TD_TAP_TWINS", "in a server with the tap: 0 records nothing of CUDA graphs without --graphs"},
    {"TD_TAP_TWINS_EARLY", "in a server with the tap: 0 copies once a GEMM of a graph has ended, not while it ends: at twice the cost on an H100"},
    {"TD_TAP_TWINS_MIB", "in a server with the tap: MiB of GPU memory that twins and their copies may "
                         "take (default 256)"},
    {"TD_TAP_CUBLAS", "in a server with the tap: 0 records no GEMM that it has cuBLAS do"},
    {NULL, NULL},
};

static struct td_args args = {
    .program = "record",
    .usage = "{record} [--server HOST:PORT] [-o DIR] [options] [--run -- COMMAND ...]",
    .about = "Record a live LLM server: send a suite of prompts several times, store every byte "
             "and its time, and the inputs of the server's GEMMs where the tap is in it. The "
             "fixture's path is the last line of the output.\n\n"
             "The tap knows td_gptq_gemm, llama.cpp and vLLM on a CPU, in shared libraries, and "
             "vLLM's gptq and Marlin kernels on an NVIDIA GPU (docs/kernels.md); of other servers "
             "the requests are recorded.",
    .table = table,
    .environment = environment,
    .command_usage = "{record} --run --",
    .examples = "  {record} --server localhost:8000\n"
                "  {record} -o good --run -- demo-server --model DIR --port 8000\n"
                "  {record} -o good --run -- llama-server -m model.gguf --port 8000\n"
                "  {record} -o good --run -- vllm serve MODEL --port 8000\n"
                "  {record} -o good --gemms all --run -- vllm serve MODEL --enforce-eager\n"
                "  {record} -o good --all-ops --run -- vllm serve MODEL --enforce-eager\n"
                "  {record} --passive --server localhost:8000 --duration 60s -o traffic\n"
                "  {record} --pcap traffic.pcapng --server 10.0.0.7:8000 -o traffic\n"
                "  eval \"$({record} --tap-env)\"; demo-server --model DIR &   # in one shell, then\n"
                "  {record} --server localhost:8000\n"};

/* Any redaction also redacts decoded_token, the text of the tokens that a scored answer names.
 * Redacting answers also redacts choices[*].text: scoring a chat's answer is a completion, whose
 * own answer is one token. paths : NULL-terminated, with room */
static void redact_scores(const char **paths)
{
    bool answers = false;
    size_t n = 0;

    for (; paths[n]; n++)
        answers |= td_redact_reaches_text(paths[n]);
    if (!n)
        return;
    paths[n++] = "**.decoded_token";
    if (answers)
        paths[n++] = "choices[*].text";
    paths[n] = NULL;
}

static void list_to_array(const struct td_arg_list *list, const char **out)
{
    int i;

    for (i = 0; i < list->n; i++)
        out[i] = list->item[i];
    out[list->n] = NULL;
}

/* Was an option given that says what to send? By its value: one that says the default changes nothing. */
static bool says_what_to_send(const struct td_record_options *o)
{
    return strcmp(o->suite, "quick") || o->repeat != 5 || o->tapped_repeat != 1 || o->concurrency || o->max_tokens ||
           o->rate > 0 || o->arrival || o->requests || o->warmup || strcmp(o->connections, "pooled") || o->logprobs != 5 || o->seed || o->ignore_eos || o->model || o->wait || strcmp(given.scores, "on");
}

/* ... or how to read the tap, beside --gemms? */
static bool says_how_to_tap(const struct td_record_options *o)
{
    return o->mode.all_kinds || o->flight || o->ops || o->layers || o->checkpoint || o->tap_socket || o->ring_mib ||
           o->weights_by_reference || given.graphs || o->graphs_mib;
}

/* Nothing is tapped unless --gemms asks for it, and then the ops must be those of what is kept. */
static int check_passive_tap(struct td_record_options *o, struct td_error *err)
{
    const bool tap = strcmp(o->gemms, "off") != 0;

    if (given.passive.file && (tap || says_how_to_tap(o)))
        return td_fail(err, TD_EINVAL,
                       "--pcap reads traffic that is over, and its GEMMs are gone: leave out --gemms, --layers, --checkpoint and the like "
                       "(--passive --gemms records both while they happen)");
    if (!tap && says_how_to_tap(o))
        return td_fail(err, TD_EINVAL, "--layers, --checkpoint, --all-ops and the like are for the tap: with --passive, also give --gemms auto, "
                                       "all or a share");
    if (strcmp(given.outputs, "all"))
        return td_fail(err, TD_EINVAL, "--outputs sends the suite once more, and --passive sends nothing: leave it out");
    if (o->flight || given.graphs || o->graphs_mib)
        return td_fail(err, TD_EINVAL, "--flight and --graphs do not go with --passive; --gemms alone does");
    if (tap && (given.sample || given.only_paths.n))
        return td_fail(err, TD_EINVAL,
                       "--gemms records what the server computes for all requests, so --sample and --only-path would leave ops without "
                       "their requests: leave them out");
    return TD_OK;
}

/* "0.5%": more than 0, and at most 100. */
static bool is_percentage(const char *text, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end > text && strspn(text, "0123456789.") == (size_t)(end - text) && !strcmp(end, "%") && *out > 0 && *out <= 100;
}

/* A recording that sends nothing goes with what concerns bytes on the wire, and with nothing else. */
static int read_passive(struct td_error *err)
{
    struct td_passive_options *p = &given.passive;
    const bool passive = given.is_passive || p->file;

    list_to_array(&given.only_paths, p->only_paths);
    p->record = &given.o;
    p->server = given.o.server;
    if (!given.o.server)
        given.o.server = "localhost:8000";
    p->duration_s = given.o.duration_s;
    if (!given.o.gemms)
        given.o.gemms = passive ? "off" : "auto";
    if (!passive && (p->max_exchanges || given.sample || given.only_paths.n || strcmp(p->interface, "any")))
        return td_fail(err, TD_EINVAL, "--interface, --only-path, --sample and --max-exchanges belong to --passive or --pcap");
    if (given.sample && !is_percentage(given.sample, &p->sample))
        return td_fail(err, TD_EINVAL, "--sample %.40s: \"1%%\" is due, of 100 connections", given.sample);
    if (given.is_passive && p->file)
        return td_fail(err, TD_EINVAL, "--passive listens, and --pcap reads a file; give one of them");
    if (p->file && p->duration_s > 0)
        return td_fail(err, TD_EINVAL, "--duration is for --passive; a file is read to its end");
    if (given.is_passive && !p->server)
        p->server = given.o.server;
    if (passive && (given.run || given.tap_env || given.o.dry_run))
        return td_fail(err, TD_EINVAL, "--passive and --pcap send nothing, and start no server: leave out --run, --tap-env, --dry-run");
    if (p->file && strcmp(p->interface, "any"))
        return td_fail(err, TD_EINVAL, "--interface is for --passive; --pcap reads a file");
    if (passive && says_what_to_send(&given.o))
        return td_fail(err, TD_EINVAL,
                       "--passive and --pcap record the traffic as it comes: leave out what says what to send "
                       "(--suite, --repeat, --model ...)");
    return passive ? check_passive_tap(&given.o, err) : TD_OK;
}

/* Parse the command line. Returns 0; > 0: --help or --version was printed; < 0: TD_E*. */
static int parse(int argc, char **argv, struct td_error *err)
{
    int rc = td_header_args_hide_named((const char *const *)argv, argc, err);

    if (!rc)
        rc = td_args_parse(&args, argc, argv, err);
    given.o.command = args.command;
    if (!rc && given.run != (args.command != NULL))
        rc = td_fail(err, TD_EINVAL,
                     "--run and \"-- COMMAND ...\" belong together; see {record} --help");
    if (!rc && given.o.server_log && !given.run)
        rc = td_fail(err, TD_EINVAL, "--server-log is for the server that --run starts");
    if (!rc && given.o.server_log && given.o.suite && td_outfile_same(given.o.server_log, given.o.suite))
        rc = td_fail(err, TD_EINVAL, "--server-log %s would be written over the suite; give it a file of its own",
                     given.o.server_log);
    if (!rc)
        rc = read_passive(err);
    if (!rc && given.o.starts > 1 && !given.run)
        rc = td_fail(err, TD_EINVAL, "--starts is for the server that --run starts");
    given.o.repeat *= given.o.starts;
    if (!rc)
        rc = td_outside_fixtures_option("-o", given.o.out, err);
    if (!rc)
        rc = td_outside_fixtures_option("--server-log", given.o.server_log, err);
    return rc;
}

/* Read the options that are texts, and check that options go together. */
static int check(struct td_record_options *o, struct td_error *err)
{
    int rc = td_record_options_graphs(given.graphs, given.run || given.tap_env, o, err);

    if (!rc)
        rc = td_api_parse(given.api, &o->api, err);
    if (!rc)
        rc = td_record_options_gemms(o->gemms, o, err);
    if (!rc)
        rc = td_record_options_scores(given.scores, o, err);
    if (!rc)
        rc = td_record_options_ops(o, err);
    if (!rc)
        rc = td_record_options_launches(given.launches, o, err);
    if (!rc)
        rc = td_record_options_gpu_time(given.gpu_time, o, err);
    if (!rc)
        rc = td_record_options_outputs(given.outputs, o, err);
    if (!rc && !given.is_passive && !given.passive.file)
        rc = td_record_load_check(o, err);
    if (!rc)
        rc = td_record_options_check(o, err);
    if (!rc)
        rc = td_header_args_check(&given.headers, &given.show_headers, &given.redact_headers, err);
    list_to_array(&given.headers, o->headers);
    list_to_array(&given.show_headers, o->show_headers);
    list_to_array(&given.redact_headers, o->redact_headers);
    list_to_array(&given.redact, o->redact);
    list_to_array(&given.redact, o->redact_given);
    if (!rc)
        rc = td_record_options_redact(o->redact_given, err);
    if (o->scores)
        redact_scores(o->redact);
    return rc;
}

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop, dump_asked;

/* The first signal ends the recording in order. The second ends this process at once, and kills the
 * server that --run started. */
static void on_signal(int number)
{
    if (stop) {
        if (td_run_server_group > 0)
            kill(-(pid_t)td_run_server_group, SIGKILL);
        _exit(128 + number);
    }
    stop = number;
}

static void on_dump_signal(int number)
{
    (void)number;
    dump_asked = 1;
}

static void catch_signals(bool flight)
{
    struct sigaction sa = {.sa_handler = on_signal},
                     dump = {.sa_handler = on_dump_signal, .sa_flags = SA_RESTART};

    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if (flight)
        sigaction(SIGUSR1, &dump, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- doing it -------------------------------------------------------------------------------- */

static int print_tap_env(int64_t graphs_mib, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(1 << 16);
    int rc = td_tap_client_env_print(graphs_mib, &b, err);

    if (!rc)
        fputs(td_buf_str(&b), stdout);
    td_buf_release(&b);
    return rc;
}

static int run_command_line(int argc, char **argv)
{
    struct td_record_options *o = &given.o;
    struct td_error err = {0};
    int rc = parse(argc, argv, &err);

    if (rc > 0)
        return TD_EXIT_OK;
    if (!rc)
        rc = check(o, &err);
    if (!rc && given.tap_env) {
        rc = print_tap_env(o->graphs_mib, &err);
    } else if (!rc && (given.is_passive || given.passive.file)) {
        catch_signals(false);
        rc = td_passive_record(&given.passive, &stop, &err);
    } else if (!rc && o->dry_run) {
        rc = td_dry_run(o, &err);
    } else if (!rc) {
        o->dump_asked = &dump_asked;
        catch_signals(o->flight != 0);
        rc = td_record(o, &stop, &err);
    }
    if (!rc)
        return TD_EXIT_OK;
    td_log(TD_LOG_ERROR, "record", "%s", err.msg);
    return err.code == TD_EINTR && stop ? 128 + stop : td_exit_code(err.code);
}

int main(int argc, char **argv)
{
    td_streams_begin();
    td_memory_begin();
    td_log_program("record");
    td_proc_catch_file_limit();
    return td_streams_end(run_command_line(argc, argv));
}
