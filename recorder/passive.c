/* passive.c - the order of a passive recording: packets in, exchanges out, the ledger.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/passive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/new_folder.h"
#include "common/number_words.h"
#include "common/out_of_memory.h"
#include "common/progress.h"
#include "common/streams.h"
#include "format/host_facts.h"
#include "format/planned.h"
#include "format/header_args.h"
#include "format/redact_values.h"
#include "recorder/captured_keys.h"
#include "recorder/captured_server.h"
#include "recorder/passive_tap.h"
#include "recorder/passive_ledger.h"
#include "recorder/prompt_names.h"
#include "recorder/recording_summary.h"
#include "wire/allowed_requests.h"
#include "wire/capture/capture.h"
#include "wire/capture/packets.h"
#include "wire/derive.h"
#include "wire/http.h"

enum {
    MOST_IN_FLIGHT = 60000,       /* the deriver follows 65,536 */
    PART_FOR_KEYS = 16,           /* of --max-memory: their bytes */
    LEVEL = 1,                    /* of zstd: packets come fast, and streams of events get nearly as small as with 3 */
    FILE_QUEUE = 32 << 20,        /* bytes between a file and the disk */
    MOST_NEEDLES = 1 << 18        /* forms of keys; a usual key has nine */
};
#define TOO_MANY_KEYS "clients sent more different keys than are searched for, so the recording ends before the first one too many"
#define DRAIN_NS (2 * TD_NS_PER_S)

struct passive {
    const struct td_passive_options *opt;
    const volatile sig_atomic_t *stop;
    struct td_redaction redaction;
    struct td_redact_values values; /* of the headers of -H, and those that captured requests send */
    struct td_captured_keys *keys;
    struct td_packets *packets;
    struct td_capture *capture;
    struct td_prompt_names *names;
    struct td_deriver *deriver;
    struct td_writer *writer;
    struct td_recording_summary summary;
    enum td_phase phase;          /* of exchanges: tapped beside an armed tap, for their times are no evidence then */
    struct td_passive_tap tap;
    bool has_tap;                 /* it was armed */
    int64_t now_ns;               /* of the packet that is looked at */
    struct td_capture_options capture_options;
    char dir[TD_PATH_MAX], model[256];
    bool model_is_known;
    int64_t unseen;               /* exchanges that are not there from their first to their last byte */
    struct td_passive_left left;
    int keys_failed;              /* TD_ELIMIT, TD_ENOMEM: a key could not be learned, so nothing more is kept */
    struct td_error broken;       /* the file is damaged from some packet on */
    int rc;                       /* the first failure of writer or deriver */
    struct td_error *err;
};

/* ---- exchanges ------------------------------------------------------------------------------- */

static bool is_wanted_path(const struct passive *p, const char *method, const char *path)
{
    const char *const *only = p->opt->only_paths;
    const size_t n = strcspn(path, "?");

    if (strlen(path) + 1 >= TD_HTTP_MAX_PATH) /* it is cut, maybe within a key */
        return false;
    for (; *only; only++)
        if (strlen(*only) == n && strncmp(*only, path, n) == 0)
            return true;
    return !p->opt->only_paths[0] && td_allowed_request(p->opt->record->api, method, path, NULL, NULL) == TD_OK;
}

/* Learn the keys of a request before a byte of its exchange is written. False: it must not be kept. */
static bool learn_keys(struct passive *p, const char *whole, size_t n)
{
    const int rc = p->keys_failed ? TD_OK : td_captured_keys_learn(p->keys, whole, n, NULL);

    p->left.no_head += rc == TD_ETRUNCATED;
    p->left.compressed += rc == TD_EUNSUPPORTED;
    if (rc && rc != TD_ETRUNCATED && rc != TD_EUNSUPPORTED)
        p->keys_failed = rc;
    p->left.keys += p->keys_failed != TD_OK;
    return !rc && !p->keys_failed;
}

/* The same connections in any recording of this traffic. */
static bool is_sampled(const struct passive *p, uint64_t connection)
{
    return !p->opt->sample || (double)(connection >> 11) < p->opt->sample / 100 * 0x1p53;
}

/* Is this request to be an exchange? Then fill in its name. */
static bool is_kept(struct passive *p, uint64_t connection, const char *method, const char *path, const char *whole, size_t n,
                    size_t body, struct td_conversation_name *name)
{
    const struct td_capture_counts *counts = td_capture_counts_of(p->capture);
    int rc;

    if (!learn_keys(p, whole, n) || !is_wanted_path(p, method, path))
        return false;
    if (!is_sampled(p, connection)) {
        p->left.not_sampled++;
        return false;
    }
    if (p->opt->max_exchanges && counts->http.exchanges >= p->opt->max_exchanges) {
        p->left.beyond_max++;
        return false;
    }
    rc = td_capture_in_flight(p->capture) >= MOST_IN_FLIGHT ? TD_ELIMIT : td_prompt_names_get(p->names, path, whole, n, body, name);
    if (rc == TD_ENOMEM)
        td_out_of_memory_note();
    p->left.over_limit += rc != TD_OK;
    return !rc;
}

/* Does a server answer this without its model? */
static bool is_idle_request(const char *method, const char *path)
{
    static const char *const idle[] = {"/tokenize", "/detokenize", "/apply-template"};
    const size_t n = strcspn(path, "?");

    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (strlen(idle[i]) == n && strncmp(idle[i], path, n) == 0)
            return true;
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0;
}

static bool wants(void *arg, uint64_t connection, const char *method, const char *path, const char *whole, size_t n,
                  size_t body, struct td_conversation_name *name)
{
    struct passive *p = arg;
    const bool kept = is_kept(p, connection, method, path, whole, n, body, name);

    if (!kept && !is_idle_request(method, path))
        td_passive_tap_stranger(&p->tap, p->now_ns);
    return kept;
}

static void take_record(void *arg, const struct td_wire *rec)
{
    struct passive *p = arg;
    int rc = td_writer_wire(p->writer, rec);

    if (rc && !p->rc)
        p->rc = td_fail(p->err, rc, "the fixture cannot be written");
    if (!p->rc)
        p->rc = td_deriver_feed(p->deriver, rec, p->err);
}

/* The server's model: by the first answer, which tells where the request named another (llama.cpp takes any name); without
 * an answer, as the first request names it. */
static void learn_model(struct passive *p, const struct td_exchange *x)
{
    const char *name = td_json_get_str(x->extra, "response_model", td_json_get_str(x->request, "model", "")), *slash = strrchr(name, '/');

    if (p->model_is_known || (x->error && *p->model))
        return;
    if (p->opt->record->api == TD_API_LLAMACPP && slash && slash[1]) /* the file's name, as in an active recording */
        name = slash + 1;
    snprintf(p->model, sizeof p->model, "%s", name);
    p->model_is_known = !x->error && *p->model;
}

static int take_exchange(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct passive *p = arg;
    int rc;

    td_passive_tap_add(&p->tap, x);
    td_writer_redact_error(p->writer, x); /* first: its quote may end within a key */
    rc = td_writer_exchange(p->writer, x);
    if (rc)
        return td_fail(err, rc, "the fixture cannot be written");
    td_recording_summary_add(&p->summary, x);
    if (td_exchange_unseen(x))
        p->unseen++;
    else if (x->prompt_id) /* else there was no memory for it, which is said at the end */
        td_prompt_names_seen(p->names, x->prompt_id);
    learn_model(p, x);
    return TD_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_packets(struct passive *p, struct td_error *err)
{
    struct td_endpoint *server = &p->capture_options.server;
    int rc = p->opt->server ? td_captured_server_read(p->opt->server, server, err) : TD_OK;

    if (rc)
        return rc;
    if (p->opt->file)
        return td_packets_open_file(p->opt->file, &p->packets, err);
    return td_packets_open_live(p->opt->interface, server->port, &p->packets, err);
}

/* Is the folder free? Asked before anything is opened. */
static int check_out(const char *out, struct td_error *err)
{
    struct td_error busy = {0};

    if (out && td_fixture_lock_check(out, &busy))
        return td_fail(err, TD_EEXIST, "%s, or choose another -o", busy.msg);
    if (out && td_fs_exists(out))
        return td_fail(err, TD_EEXIST, "%s is there already, and a recording is never overwritten; choose another -o", out);
    return TD_OK;
}

/* A file waits for the writer; what comes by at an interface does not, and has the queue that others have. */
static int64_t file_queue(void)
{
    const int64_t quarter = td_memory_max() / 4;

    return quarter < FILE_QUEUE ? quarter : FILE_QUEUE;
}

static int open_fixture(struct passive *p, struct td_error *err)
{
    const struct td_record_options *o = p->opt->record;
    const struct td_writer_options wo = {.tool = "record", .redaction = &p->redaction, .level = LEVEL,
                                         .queue_max_bytes = p->opt->file ? file_queue() : 0};
    char stamp[32], path[80];
    int rc;

    td_clock_stamp(td_clock_wall_ns(), stamp, sizeof stamp);
    snprintf(path, sizeof path, "fixtures/captured-%s", stamp);
    snprintf(p->dir, sizeof p->dir, "%s", o->out ? o->out : "");
    rc = o->out ? td_fs_mkdirs_above(p->dir, err) : td_new_folder(path, p->dir, err);
    return rc ? rc : td_writer_create(p->dir, &wo, &p->writer, err);
}

/* What is secret: the headers of -H, and from here on what captured requests send. */
static int open_keys(struct passive *p, struct td_error *err)
{
    const size_t most_bytes = (size_t)td_memory_max() / PART_FOR_KEYS;
    int rc = td_redact_values_init(&p->values, p->redaction.sent, err);

    if (!rc)
        rc = td_redact_values_open(&p->values, MOST_NEEDLES, most_bytes, err);
    if (!rc)
        rc = td_captured_keys_new(&p->redaction, &p->keys, err);
    if (!rc)
        td_header_args_hide_values(&p->values);
    if (rc || !p->opt->file)
        return rc;
    return td_captured_keys_read(p->keys, p->opt->file, &p->capture_options.server, p->capture_options.max_held_bytes, p->stop, err);
}

static int open_all(struct passive *p, struct td_error *err)
{
    const struct td_record_options *o = p->opt->record;
    int rc;

    p->redaction = (struct td_redaction){.headers = o->redact_headers, .sent = o->headers, .shown = o->show_headers,
                                         .values = &p->values, .json_paths = o->redact, .no_text = o->no_text};
    p->capture_options = (struct td_capture_options){.api = o->api == TD_API_AUTO ? "openai" : td_api_name(o->api),
                                                     .wants = wants, .wants_arg = p, .sink = take_record, .sink_arg = p,
                                                     .max_held_bytes = td_memory_max() / TD_MEMORY_RECORD_PART};
    rc = check_out(o->out, err);
    if (!rc)
        rc = open_packets(p, err);
    if (!rc)
        rc = open_keys(p, err);
    if (!rc)
        rc = td_prompt_names_new(&p->redaction, &p->names, err);
    if (!rc)
        rc = td_capture_new(&p->capture_options, &p->capture, err);
    p->deriver = td_deriver_new(take_exchange, p);
    if (!rc && !p->deriver)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    return rc ? rc : open_fixture(p, err);
}

/* ---- packets --------------------------------------------------------------------------------- */

static bool is_over(const struct passive *p, int64_t until_ns)
{
    return *p->stop || p->keys_failed || (until_ns != INT64_MAX && td_clock_mono_ns() >= until_ns) ||
           (p->opt->max_exchanges && td_capture_counts_of(p->capture)->http.exchanges >= p->opt->max_exchanges &&
            !td_capture_in_flight(p->capture));
}

static void take_packet(struct passive *p, const struct td_packet *packet)
{
    p->now_ns = packet->t_ns;
    td_capture_packet(p->capture, td_packets_link(p->packets), packet->t_ns, packet->data, packet->captured,
                      packet->wire);
    td_capture_look_at_memory(p->capture);
}

/* The kernel hands packets on in blocks, a tenth of a second late. What came by before the end belongs to
 * the recording. */
static void drain(struct passive *p)
{
    const int64_t end_ns = td_clock_wall_ns(), until_ns = td_clock_mono_ns() + DRAIN_NS;
    struct td_packet packet;
    int empty = 0, rc = 1;

    while (!p->rc && !p->keys_failed && rc >= 0 && empty < 2 && td_clock_mono_ns() < until_ns) {
        rc = td_packets_next(p->packets, &packet, &p->broken);
        empty += rc == 0;
        if (rc > 0 && packet.t_ns <= end_ns)
            take_packet(p, &packet);
    }
}

/* Read until the end. A file that is damaged, or ends in mid-packet, ends there. */
static int read_packets(struct passive *p)
{
    const bool live = !p->opt->file;
    const int64_t until_ns =
        p->opt->duration_s > 0 ? td_clock_mono_ns() + (int64_t)(p->opt->duration_s * 1e9) : INT64_MAX;
    struct td_packet packet;
    int rc = TD_OK;

    if (live)
        td_log(TD_LOG_INFO, "record", "listening at %s; ^C ends the recording", p->opt->interface);
    while (!p->rc && !is_over(p, until_ns)) {
        rc = td_packets_next(p->packets, &packet, &p->broken);
        if (rc < 0 || (rc == 0 && !live))
            break;
        if (rc)
            take_packet(p, &packet);
    }
    td_passive_tap_disarm(&p->tap);
    if (live && rc >= 0 && !p->keys_failed)
        drain(p);
    if (*p->stop) /* which may have broken off a read */
        td_error_clear(&p->broken);
    td_capture_end(p->capture);
    if (!p->rc)
        p->rc = td_deriver_end(p->deriver, p->err);
    if (p->keys_failed == TD_ENOMEM && !p->rc)
        p->rc = td_fail(p->err, TD_ENOMEM, "out of memory for the keys of captured requests");
    if (p->keys_failed == TD_ELIMIT)
        td_log(TD_LOG_WARN, "record", "%s; what came before is recorded", TOO_MANY_KEYS);
    if (p->broken.code == TD_EIO && !live && !p->rc)
        p->rc = td_fail(p->err, TD_EIO, "%s; what came before is in %s", p->broken.msg, p->dir);
    else if (p->broken.code)
        td_log(TD_LOG_WARN, "record", "%s; what came before is recorded", p->broken.msg);
    return p->rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Why it is not all there. Returns how many causes there are. */
static int find_causes(const struct passive *p, const struct td_phase_summary *all, struct td_ops_causes *ops, char failed[200],
                       const char **causes)
{
    int n = 0;

    if (all->failed) {
        snprintf(failed, 200, "%lld of %lld captured exchanges are not whole, or failed, the first: %.100s",
                 (long long)all->failed, (long long)all->requests, all->first_error);
        causes[n++] = failed;
    }
    if (p->broken.code)
        causes[n++] = p->broken.msg;
    if (p->keys_failed)
        causes[n++] = TOO_MANY_KEYS;
    ops->n = 0;
    if (p->has_tap)
        td_ops_causes_find(p->opt->record, &p->tap.ops, true, false, p->tap.failure, ops);
    for (int i = 0; i < ops->n; i++)
        causes[n++] = ops->text[i];
    return n;
}

/* Returns whether something is missing. */
static bool write_plan(struct passive *p)
{
    const struct td_phase_summary *all = &p->summary.phase[p->phase];
    const int64_t judged = all->requests - p->unseen; /* nobody could have judged the others */
    const bool tapped = p->phase == TD_PHASE_TAPPED;
    cJSON *yes = cJSON_CreateTrue();
    struct td_ops_causes ops;
    char failed[200];
    const char *causes[3 + TD_OPS_CAUSES];
    const int n = find_causes(p, all, &ops, failed, causes);

    td_planned_write(p->writer, "prompts", (int64_t)td_prompt_names_count(p->names));
    td_planned_write(p->writer, "repeats", td_prompt_names_most(p->names));
    td_planned_write(p->writer, "timed", tapped ? 0 : judged);
    td_planned_write(p->writer, "tapped", tapped ? judged : 0);
    td_planned_write(p->writer, "scores", 0);
    td_planned_seen(p->writer, tapped ? "tapped" : "timed", all->requests - all->failed);
    if (n) {
        td_writer_fact(p->writer, "plan", "failures_allowed", yes);
        td_planned_causes(p->writer, causes, n);
    }
    cJSON_Delete(yes);
    return n > 0;
}

/* Returns whether something is missing. */
static bool write_facts(struct passive *p)
{
    const enum td_api_kind api = p->opt->record->api;

    if (!p->opt->file)
        td_host_facts_write(p->writer);
    td_writer_fact_str(p->writer, "suite", "name", "captured");
    td_writer_fact_num(p->writer, "suite", "prompts", (double)td_prompt_names_count(p->names));
    td_writer_fact_str(p->writer, "server", "kind", api == TD_API_AUTO ? "openai" : td_api_name(api));
    td_writer_fact_str(p->writer, "server", "model", p->model);
    td_writer_fact_str(p->writer, "capture", "from", p->opt->file ? p->opt->file : p->opt->interface);
    td_writer_fact_str(p->writer, "capture", "clock", "wall");
    if (p->has_tap)
        td_writer_fact_str(p->writer, "options", "gemms", p->opt->record->gemms);
    return write_plan(p);
}

static int close_fixture(struct passive *p, int rc, struct td_error *err)
{
    struct td_error late = {0};
    bool partial;

    td_passive_tap_end(&p->tap);
    p->left.dropped = td_packets_dropped(p->packets);
    td_passive_ledger_write(p->writer, td_capture_counts_of(p->capture), &p->left);
    partial = write_facts(p);
    if (td_writer_close(p->writer, rc ? "interrupted" : partial ? "failures_allowed" : "complete", &late) && !rc)
        rc = td_fail(err, late.code, "%s; what was committed before is in %s ({fixture} repair %s)", late.msg, p->dir,
                     p->dir);
    p->writer = NULL;
    return rc;
}

static void release(struct passive *p)
{
    if (p->err)
        td_redact_values_apply(&p->values, p->err->msg, strlen(p->err->msg), true); /* it is printed later */
    td_header_args_hide_values(NULL);
    td_passive_tap_release(&p->tap);
    td_captured_keys_free(p->keys);
    td_redact_values_release(&p->values);
    td_capture_free(p->capture);
    td_deriver_free(p->deriver);
    td_prompt_names_free(p->names);
    td_packets_close(p->packets);
    td_recording_summary_release(&p->summary);
}

static int print_summary(struct passive *p, struct td_error *err)
{
    if (!td_log_quiet()) {
        td_recording_summary_print(&p->summary, td_prompt_names_count(p->names), p->has_tap ? &p->tap.ops : NULL,
                                   p->opt->record->mode.steps == TD_TAP_CLIENT_ALL, "the traffic alone was recorded", stdout);
        td_passive_ledger_print(td_capture_counts_of(p->capture), &p->left, stdout);
    }
    printf("%s\n", p->dir);
    return td_stream_flush(stdout, "the summary of the recording", err);
}

/* With the tap armed from here on. A fixture in which nothing can come does not stay. */
static int arm_tap(struct passive *p, struct td_error *err)
{
    const struct td_record_options *o = p->opt->record;
    int rc = TD_OK;

    if (o->mode.steps != TD_TAP_CLIENT_OFF)
        rc = td_passive_tap_arm(&p->tap, o, p->opt->server, p->writer, p->stop, err);
    p->has_tap = !rc && p->tap.client;
    if (p->has_tap) {
        p->phase = TD_PHASE_TAPPED;
        td_capture_set_phase(p->capture, "tapped");
    }
    if (rc) {
        td_passive_tap_release(&p->tap);
        td_writer_close(p->writer, "interrupted", NULL);
        td_fs_remove_tree(p->dir, NULL);
    }
    return rc;
}

/* There was no exchange: the fixture does not stay. */
static int explain_nothing(const struct passive *p, struct td_error *err)
{
    td_fs_remove_tree(p->dir, NULL);
    if (p->broken.code)
        return td_fail(err, p->broken.code, "%s", p->broken.msg);
    if (p->keys_failed)
        return td_fail(err, p->keys_failed, TOO_MANY_KEYS);
    return td_passive_ledger_explain(td_capture_counts_of(p->capture), &p->left, p->opt->server, p->opt->only_paths[0] != NULL, err);
}

/* Ops were asked for by name, and none came: the traffic is recorded, and that is not what was asked for. */
static int check_ops(const struct passive *p, struct td_error *err)
{
    struct td_ops_causes causes;

    if (!p->has_tap || !p->opt->record->gemms_required || p->tap.ops.ops_kept)
        return TD_OK;
    td_ops_causes_find(p->opt->record, &p->tap.ops, true, false, p->tap.failure, &causes);
    return td_fail(err, TD_EPROTO, "%s holds the traffic alone: %s", p->dir, causes.text[causes.n - 1]);
}

int td_passive_record(const struct td_passive_options *opt, const volatile sig_atomic_t *stop, struct td_error *err)
{
    struct passive p = {.opt = opt, .stop = stop, .err = err};
    int rc = open_all(&p, err);

    if (rc == TD_EIO && *stop) { /* a signal broke off the read of the file's head */
        td_error_clear(err);
        td_fail(err, TD_EIO, "interrupted before a packet came; nothing is recorded");
    }
    if (!rc)
        rc = arm_tap(&p, err);
    if (!rc) {
        rc = read_packets(&p);
        rc = close_fixture(&p, rc, err);
        if (!rc && !p.summary.phase[p.phase].requests)
            rc = explain_nothing(&p, err);
        else if (!rc)
            rc = print_summary(&p, err);
        if (!rc)
            rc = check_ops(&p, err);
    }
    release(&p);
    return rc;
}
