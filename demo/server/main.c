/* main.c - the demo server: options, start, wait for a signal, end.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/args.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/streams.h"
#include "demo/server/routes.h"
#include "kernels/abi/td_gptq.h"

#define MAX_ROWS 512 /* of a step: decoding rows and pieces of prompts */

struct options {
    const char *model, *host, *name, *fault;
    int64_t port, max_num_seqs;
    double load_delay_s;
};

static int fill_fingerprint(struct td_server *s, struct td_error *err)
{
    char path[TD_PATH_MAX], hex[TD_HASH_HEX];
    struct td_buf text = TD_BUF_INIT(1 << 20);
    int rc = td_fs_join(path, sizeof path, s->model_dir, "config.json", err);

    if (!rc)
        rc = td_fs_read(path, text.max, &text, err);
    td_hash_hex(td_hash_bytes(td_buf_str(&text), text.len), hex);
    snprintf(s->fingerprint, sizeof s->fingerprint, "tapedeck-demo-%s-%.8s", TD_VERSION, hex);
    td_buf_release(&text);
    return rc;
}

static int load_server(struct td_server *s, const struct options *o, struct td_error *err)
{
    int rc = td_fault_parse(&s->fault, o->fault, err);

    s->model_dir = o->model;
    s->created_s = td_clock_wall_ns() / TD_NS_PER_S;
    if (!rc)
        rc = fill_fingerprint(s, err);
    if (!rc)
        rc = td_tokenizer_open(&s->tokenizer, o->model, err);
    if (!rc)
        rc = td_llama_open(&s->llama, o->model, MAX_ROWS, (int)o->max_num_seqs, err);
    if (rc)
        return rc;
    if (td_tokenizer_size(s->tokenizer) != s->llama->cfg.vocab_size)
        return td_fail(err, TD_EINVAL,
                       "%s: tokenizer.json has %d tokens, config.json a vocabulary of %d", o->model,
                       td_tokenizer_size(s->tokenizer), s->llama->cfg.vocab_size);
    s->model = (struct td_request_model){.tokenizer = s->tokenizer, .name = o->name ? o->name : o->model,
                                         .context = s->llama->cfg.max_position, .vocab = s->llama->cfg.vocab_size};
    return td_engine_open(&s->engine, s->llama, &s->metrics, td_fault_pause_ms(&s->fault), err);
}

/* Until SIGTERM or SIGINT; "loading" ends on the way. */
static void wait_for_end(struct td_server *s, const sigset_t *signals, double load_delay_s)
{
    struct timespec t = {.tv_sec = (time_t)load_delay_s, .tv_nsec = (long)((load_delay_s - (double)(time_t)load_delay_s) * 1e9)};
    int signal_number = -1;

    if (load_delay_s > 0)
        signal_number = sigtimedwait(signals, NULL, &t);
    atomic_store(&s->is_loading, false);
    while (signal_number < 0) {
        signal_number = sigwaitinfo(signals, NULL);
        if (signal_number < 0 && errno != EINTR)
            break;
    }
}

static int run_server(struct td_server *s, const struct options *o, struct td_error *err)
{
    struct td_httpd *http = NULL;
    sigset_t signals;
    int port = (int)o->port, rc;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before any thread starts */
    signal(SIGPIPE, SIG_IGN);
    rc = load_server(s, o, err);
    atomic_store(&s->is_loading, o->load_delay_s > 0);
    if (!rc)
        rc = td_httpd_open(&http, o->host, &port, td_server_route, s, err);
    if (!rc) {
        td_log(TD_LOG_INFO, "server", "%s, %s, up to %d sequences", o->model, td_kernels_build(), (int)o->max_num_seqs);
        printf(strchr(o->host, ':') ? "listening on http://[%s]:%d\n" : "listening on http://%s:%d\n", o->host, port);
        rc = td_stream_flush(stdout, "the address", err);
    }
    if (!rc)
        wait_for_end(s, &signals, o->load_delay_s);
    td_engine_stop(s->engine);
    td_httpd_close(http);
    td_engine_close(s->engine);
    td_llama_close(s->llama);
    td_tokenizer_close(s->tokenizer);
    return rc;
}

static int run_command_line(int argc, char **argv)
{
    struct options o = {.host = "127.0.0.1", .port = 8000, .max_num_seqs = 8};
    const struct td_arg table[] = {
        {.name = "model",
         .type = TD_ARG_STR,
         .value = &o.model,
         .operand = "DIR",
         .help = "checkpoint folder: a Llama-type GPTQ model with byte-level tokens"},
        {.name = "host",
         .type = TD_ARG_STR,
         .value = &o.host,
         .operand = "HOST",
         .help = "where to listen (127.0.0.1)"},
        {.name = "port",
         .type = TD_ARG_I64,
         .value = &o.port,
         .operand = "PORT",
         .help = "port; 0: any free port, which is printed (8000)",
         .max = 65535},
        {.name = "served-model-name",
         .type = TD_ARG_STR,
         .value = &o.name,
         .operand = "NAME",
         .help = "the model's name in requests (DIR)"},
        {.name = "max-num-seqs",
         .type = TD_ARG_I64,
         .value = &o.max_num_seqs,
         .operand = "N",
         .help = "sequences that run at once (8)",
         .min = 1,
         .max = 64},
        {.name = "load-delay",
         .type = TD_ARG_NUM,
         .value = &o.load_delay_s,
         .operand = "S",
         .help = "for tests: answer 503 for S seconds first",
         .max = 3600},
        {.name = "fault",
         .type = TD_ARG_STR,
         .value = &o.fault,
         .operand = "KIND[:N]",
         .help =
             "for tests: http500, garbage, nul-text, cut, die, slow:MS (see demo/server/fault.h)"},
        {0}};
    static const struct td_arg_env environment[] = {
        {"TD_KERNEL", "of libtdkernels.so: the variant to run (default: the fastest on this CPU)"},
        {"LD_LIBRARY_PATH", "where another libtdkernels.so is looked for"},
        {NULL, NULL},
    };
    struct td_args args = {
        .program = "demo-server",
        .usage = "demo-server --model DIR [options]",
        .about =
            "A small server that speaks vLLM's API on the CPU: something real to record. "
            "Its linear layers are calls of td_gptq_gemm in libtdkernels.so: with LD_LIBRARY_PATH "
            "another libtdkernels.so is loaded, and that is another build.",
        .table = table,
        .environment = environment,
        .examples =
            "  demo-server --model demo/checkpoints/gptq4 --port 8000 --served-model-name tiny\n"
            "  LD_LIBRARY_PATH=lib/bugs/column_tail demo-server --model demo/checkpoints/gptq4\n"
            "  demo-server --model demo/checkpoints/gptq4 --fault cut:5\n"};
    struct td_server server = {0};
    struct td_error err = {0};
    int rc;

    rc = td_args_parse(&args, argc, argv, &err);
    if (rc > 0)
        return TD_EXIT_OK;
    if (!rc && (!o.model || args.n_rest > 0))
        rc = td_fail(&err, TD_EINVAL, o.model ? "unexpected operand; see --help" : "--model DIR is needed; see --help");
    if (!rc) {
        td_server_metrics_init(&server.metrics);
        rc = run_server(&server, &o, &err);
        td_server_metrics_release(&server.metrics);
    }
    if (rc)
        td_log(TD_LOG_ERROR, "server", "%s", err.msg);
    return td_exit_code(rc);
}

int main(int argc, char **argv)
{
    td_streams_begin();
    td_memory_begin();
    td_log_program("demo-server");
    return td_streams_end(run_command_line(argc, argv));
}
