/* record.c - the order of a recording: prepare, reach the server, send, finish.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/record.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "common/hidden.h"
#include "common/log.h"
#include "common/new_folder.h"
#include "common/streams.h"
#include "format/manifest.h"
#include "format/unmatched.h"
#include "recorder/recording.h"
#include "recorder/recording_facts.h"
#include "recorder/recording_gpu_time.h"
#include "recorder/recording_starts.h"
#include "recorder/recording_state.h"
#include "recorder/recording_tap.h"
#include "recorder/send_requests.h"
#include "recorder/tap_client/tap_client.h"
#include "wire/open_files.h"

/* ---- 1. before the server is asked ----------------------------------------------------------- */

/* The most requests that will be in flight at once. */
static int64_t most_in_flight(const struct td_recording *r)
{
    int64_t most = r->opt->concurrency;
    size_t i;

    for (i = 0; !r->opt->concurrency && i < r->suite.n; i++)
        most = r->suite.prompts[i].concurrency > most ? r->suite.prompts[i].concurrency : most;
    return most < (int64_t)r->suite.n ? most : (int64_t)r->suite.n;
}

static int prepare(struct td_recording *r, struct td_error *err)
{
    const struct td_record_options *o = r->opt;
    struct td_error busy = {0};
    size_t i;
    int rc;

    td_tap_client_nonce(r->nonce);
    td_scores_init(&r->scores, o->scores);
    r->sampling = (struct td_sampling)TD_SAMPLING_DEFAULT;
    r->sampling.max_tokens = o->max_tokens ? (int32_t)o->max_tokens : r->sampling.max_tokens;
    r->sampling.logprobs = (int32_t)o->logprobs;
    r->sampling.seed = o->seed;
    r->sampling.ignore_eos = o->ignore_eos;
    r->fill_ids = td_fill_ids_new(td_recording_receive, r);
    if (!r->fill_ids)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (o->out && td_fixture_lock_check(o->out, &busy))
        return td_fail(err, TD_EEXIST, "%s, or choose another -o", busy.msg);
    if (o->out && td_fs_exists(o->out))
        return td_fail(
            err, TD_EEXIST,
            "%s is there already, and a recording is never overwritten; choose another -o", o->out);
    rc = td_suite_load(o->suite, &r->suite, err);
    for (i = 0; !rc && o->max_tokens && i < r->suite.n; i++)
        r->suite.prompts[i].max_tokens = (int32_t)o->max_tokens;
    if (!rc)
        rc = td_record_load_plan(o, r->suite.n, &r->load, err);
    if (!rc)
        rc = td_open_files_ensure(most_in_flight(r), err);
    return rc ? rc : td_api_url(o->server, r->url, sizeof r->url, err);
}

/* ---- 2. the server --------------------------------------------------------------------------- */

/* Start it if --run says so, then wait until it answers. */
static int reach_server(struct td_recording *r, struct td_error *err)
{
    const struct td_record_options *o = r->opt;
    bool with_tap = o->mode.steps != TD_TAP_CLIENT_OFF;
    int rc = TD_OK;

    if (o->command)
        rc = td_server_log_open(&r->started.log, o->server_log, o->out, err);
    r->started.log.no_text = o->no_text;
    r->started.log.headers = o->headers;
    if (o->command && !rc)
        rc = td_run_server_start(&r->started, o->command, r->url, with_tap, o->graphs_mib,
                                 r->no_tap, sizeof r->no_tap, err);
    if (!rc && o->gemms_required && *r->no_tap)
        rc = td_fail(err, TD_ENOTFOUND, "--gemms %s: %s", o->gemms, r->no_tap);
    if (!rc)
        rc = td_recording_probe(r, &r->server, err);
    if (rc && rc != TD_EINTR && r->started.proc.pid > 0 && !*r->started.elsewhere)
        td_server_log_show(&r->started.log);
    if (rc == TD_ECRASH && *r->started.elsewhere) {
        td_error_clear(err);
        rc = td_fail(err, TD_EINVAL,
                     "%s: listens at %s, but --server says %s; give --server %s, or have it listen "
                     "there (an option behind --)",
                     o->command[0], r->started.elsewhere, o->server, r->started.elsewhere);
    } else if (rc == TD_ECRASH) {
        td_fail_at(err, "%s: %s", o->command[0], r->started.how);
    }
    if (rc)
        return rc;
    td_log(TD_LOG_INFO, "record", "%s: %s %s, model %s", r->server.url, td_api_name(r->server.kind),
           r->server.version, r->server.model);
    if (*r->server.note)
        td_log(TD_LOG_WARN, "record", "%s", r->server.note);
    return TD_OK;
}

/* ---- 3. the fixture -------------------------------------------------------------------------- */

/* Make "fixtures/MODEL-20261121T111730Z", "...Z-2" where another recording began in this second. */
static int make_default_dir(struct td_recording *r, struct td_error *err)
{
    char *shown = td_hidden_copy(r->server.model, strlen(r->server.model));
    const char *slash = shown ? strrchr(shown, '/') : NULL,
               *model = slash && slash[1] ? slash + 1 : shown ? shown : "";
    char name[65], stamp[32], path[160];
    size_t i;

    for (i = 0; i < sizeof name - 1 && model[i]; i++)
        name[i] =
            isalnum((unsigned char)model[i]) || (i && strchr("._-", model[i])) ? model[i] : '_';
    name[i] = '\0';
    free(shown);
    td_clock_stamp(td_clock_wall_ns(), stamp, sizeof stamp);
    snprintf(path, sizeof path, "fixtures/%s-%s", *name ? name : "model", stamp);
    return td_new_folder(path, r->dir, err);
}

static int open_fixture(struct td_recording *r, struct td_error *err)
{
    const struct td_record_options *o = r->opt;
    struct td_redaction redaction = {.headers = o->redact_headers,
                                     .sent = o->headers,
                                     .shown = o->show_headers,
                                     .json_paths = o->redact,
                                     .no_text = o->no_text};
    struct td_writer_options wo = {.tool = "record", .redaction = &redaction};
    int rc;

    if (o->out)
        snprintf(r->dir, sizeof r->dir, "%s", o->out);
    rc = o->out ? td_fs_mkdirs_above(r->dir, err) : make_default_dir(r, err);
    if (!rc)
        rc = td_writer_create(r->dir, &wo, &r->writer, err);
    if (!rc)
        td_recording_facts_begin(r);
    return rc;
}

/* ---- 4. the phases --------------------------------------------------------------------------- */

/* One short request: the tap's socket exists from the first op on, caches are warm, and fields that
 * this server refuses show. */
static int warm_up(struct td_recording *r, struct td_error *err)
{
    int rc;

    do {
        r->ask_again = false;
        rc = td_recording_send_first(r, TD_PHASE_WARMUP, TD_WARMUP_TOKENS, err);
    } while (!rc && r->ask_again && !r->interrupted);
    return rc;
}

/* The timed repeats of the first start, and the server's own metrics before and after them. */
static int timed_phase(struct td_recording *r, struct td_error *err)
{
    int rc = r->opt->warmup ? td_recording_send_warmup(r, err) : TD_OK;

    if (!rc && !r->interrupted && !r->server_gone)
        rc = td_recording_timed(r, 0, err);
    if (!r->interrupted && !r->server_gone)
        td_extras_metrics(&r->extras, &r->server, r->opt->headers, &r->metrics[1]);
    return rc;
}

/* Ask again for token ids that the stream lost. Nothing here is timed. */
static int fill_ids(struct td_recording *r, struct td_error *err)
{
    struct td_plan plan = TD_PLAN_INIT;
    int rc = TD_OK, end;

    if (!r->interrupted && !r->server_gone)
        rc = td_fill_ids_plan(r->fill_ids, &r->server, r->opt->headers, &plan, err);
    if (!rc && plan.n)
        rc = td_recording_send_plan(r, &plan, NULL, err);
    td_plan_release(&plan);
    end = td_fill_ids_end(r->fill_ids, rc ? NULL : err);
    return rc ? rc : end;
}

static int send_scores(void *arg, const struct td_plan *plan, struct td_error *err)
{
    return td_recording_send_plan(arg, plan, "scoring answers", err);
}

/* Have answers scored. Nothing is timed after that: nobody knows what it costs this server. */
static int score_phase(struct td_recording *r, struct td_error *err)
{
    int rc;

    if (r->interrupted || r->server_gone)
        return TD_OK;
    td_recording_plan_scores(r);
    rc = td_scores_ask(&r->scores, &r->server, send_scores, r, err);
    td_recording_plan_without_refused(r);
    return rc;
}

/* Read what the tap has sent to its end. What was read last counts as well: of a ring that broke, for example. */
static void end_tap(struct td_recording *r)
{
    struct td_error late = {0};

    if (td_tap_client_end(r->client, &late))
        snprintf(r->tap_failure, sizeof r->tap_failure, "%.199s", late.msg);
    if (r->client)
        td_tap_client_state(r->client, &r->ops);
    td_tap_client_close(r->client, NULL);
    r->client = NULL;
}

/* The other starts. Answers that lost token ids are held until they are asked for again, of these starts too. */
static int more_starts(struct td_recording *r, struct td_error *err)
{
    int rc;

    end_tap(r);
    rc = td_recording_more_starts(r, err);
    if (!rc)
        return fill_ids(r, err);
    td_fill_ids_end(r->fill_ids, NULL);
    return rc;
}

static int run_phases(struct td_recording *r, struct td_error *err)
{
    int rc = warm_up(r, err);

    if (!rc && !r->interrupted)
        rc = td_recording_find_tap(r, err);
    td_recording_plan_tapped(r);
    if (!rc && !r->interrupted)
        rc = timed_phase(r, err);
    if (!rc)
        rc = td_recording_tapped_phase(r, err);
    if (!rc)
        rc = fill_ids(r, err);
    if (!rc) /* else not all requests are known */
        td_tap_client_name_rows(r->client, r->tapped.x, r->tapped.n);
    if (!rc)
        rc = score_phase(r, err);
    if (!rc)
        rc = td_recording_gpu_time(r, err);
    if (!rc && r->opt->starts > 1)
        rc = more_starts(r, err);
    if (!rc && r->server_gone) /* what came before is a recording all the same */
        td_log(TD_LOG_WARN, "record", "%s ended while it was recorded (%s)", r->opt->command[0],
               r->started.how);
    return rc;
}

/* ---- 5. the end ------------------------------------------------------------------------------ */

/* A rule that matched nothing is a typing mistake, more often than not. */
static void warn_of_rules(const struct td_recording *r)
{
    struct td_buf rules = TD_BUF_INIT(1 << 16);

    td_redaction_unmatched(r->dir, "path", r->opt->redact_given, &rules);
    td_redaction_unmatched(r->dir, "header", r->opt->redact_headers, &rules);
    if (rules.len)
        td_log(TD_LOG_WARN, "record", "these rules of redaction matched nothing: %s; is what they name spelt so?", td_buf_str(&rules));
    td_buf_release(&rules);
}

/* What the recording is worth less by: said with --quiet, too. */
static void warn(struct td_recording *r)
{
    struct td_recording_summary *s = &r->summary;
    int64_t failed = s->phase[TD_PHASE_TIMED].failed + s->phase[TD_PHASE_TAPPED].failed;
    char words[300];

    if (failed && !r->interrupted)
        td_log(TD_LOG_WARN, "record",
               "%lld requests failed, and are recorded as such; the first: %s", (long long)failed,
               s->first_error);
    else if (*r->warmup_error && !r->interrupted)
        td_log(TD_LOG_WARN, "record", "a warm-up request failed, so the first answers may be those of a cold server: %s", r->warmup_error);
    if (s->collapsed)
        td_log(TD_LOG_WARN, "record", "%lld answers look collapsed; the first: %s",
               (long long)s->collapsed, s->first_collapse);
    if (td_client_lag_limits(&s->lag))
        td_log(TD_LOG_WARN, "record", "%s", td_client_lag_limit_words(&s->lag, words, sizeof words));
    if (s->ids_incomplete)
        td_log(TD_LOG_INFO, "record", "token ids are incomplete in %lld answers",
               (long long)s->ids_incomplete);
}

/* Write what is left, then close the tap client and the fixture. rc : how the phases ended. */
static int close_fixture(struct td_recording *r, int rc, struct td_recording_state *state,
                         struct td_error *err)
{
    struct td_error late = {0};

    td_recording_facts_end(r);
    end_tap(r);
    td_recording_state_end(r, rc, state);
    if (td_writer_close(r->writer, state->name, &late)) {
        td_error_clear(err); /* what else went wrong followed from it */
        rc = td_fail(err, late.code, "%s; what was committed before is in %s ({fixture} repair %s)",
                     late.msg, r->dir, r->dir);
    } else {
        warn_of_rules(r);
    }
    r->writer = NULL;
    return rc;
}

static int64_t count_answers(const struct td_recording *r)
{
    const struct td_phase_summary *timed = &r->summary.phase[TD_PHASE_TIMED],
                                  *tapped = &r->summary.phase[TD_PHASE_TAPPED];

    return timed->requests - timed->failed + tapped->requests - tapped->failed;
}

/* A recording needs all that was planned, or one answer where failures are allowed. A fixture that
 * lacks that is left, so that one can look into it. */
static int check_state(const struct td_recording *r, const struct td_recording_state *state,
                       struct td_error *err)
{
    const int64_t answers = count_answers(r);

    if (r->interrupted)
        return td_fail(err, TD_EINTR,
                       "interrupted after %lld of %lld answers; %s holds what came until then, and "
                       "is marked as interrupted",
                       (long long)answers, (long long)(r->planned_timed + r->planned_tapped),
                       r->dir);
    if (!answers)
        return td_fail(err, TD_EPROTO, "no request succeeded; %s%s (kept in %s)",
                       *r->engine ? "" : "the first: ",
                       *r->engine ? r->engine : r->summary.first_error, r->dir);
    if (!strcmp(state->name, "incomplete"))
        return td_fail(err, TD_EPROTO,
                       "%s is incomplete: %s%s%s; record it again, or accept that with "
                       "--allow-failures",
                       r->dir, state->causes[0], state->n > 1 ? "; " : "",
                       state->n > 1 ? state->causes[1] : "");
    return TD_OK;
}

static int64_t bytes_on_disk(const char *dir)
{
    char path[TD_PATH_MAX];
    struct stat st;
    int64_t sum = 0;
    int i;

    for (i = 0; i < TD_FILE_COUNT; i++)
        if (!td_fs_join(path, sizeof path, dir, td_file_names[i], NULL) && !lstat(path, &st))
            sum += st.st_size;
    return sum;
}

/* unread : why it could not be printed, if so; the recording is none the worse */
static void print_summary(struct td_recording *r, struct td_error *unread)
{
    char what[TD_PATH_MAX + 80];
    const char *no_tap = r->opt->mode.steps == TD_TAP_CLIENT_OFF ? "--gemms off"
                         : *r->no_tap                            ? "no tap in the server"
                                                                 : "not reached";

    if (!td_log_quiet())
        td_recording_summary_print(&r->summary, r->suite.n, r->have_ops ? &r->ops : NULL,
                                   r->opt->mode.steps == TD_TAP_CLIENT_ALL, no_tap, stdout);
    if (r->have_ops && !td_log_quiet())
        printf("size     %.1f MiB on disk\n", (double)bytes_on_disk(r->dir) / (1 << 20));
    printf("%s\n", r->dir);
    snprintf(what, sizeof what, "the summary of %s, which is recorded", r->dir);
    td_stream_flush(stdout, what, unread);
}

static void release(struct td_recording *r)
{
    free(r->tapped.x);
    if (r->have_sample)
        td_exchange_release(&r->sample);
    td_fill_ids_free(r->fill_ids);
    td_scores_release(&r->scores);
    td_metrics_release(&r->metrics[0]);
    td_metrics_release(&r->metrics[1]);
    td_recording_summary_release(&r->summary);
    td_suite_release(&r->suite);
}

int td_record(const struct td_record_options *opt, const volatile sig_atomic_t *stop,
              struct td_error *err)
{
    struct td_recording r = {.opt = opt, .stop = stop};
    struct td_recording_state state;
    struct td_error unread = {0};
    bool useless;
    int rc;

    rc = prepare(&r, err);
    if (!rc)
        rc = reach_server(&r, err);
    if (!rc)
        rc = open_fixture(&r, err);
    if (!rc) {
        rc = run_phases(&r, err);
        useless = rc && !r.summary.phase[TD_PHASE_TIMED].requests; /* no tap where one is required,
                                                                      or no disk */
        rc = close_fixture(&r, rc, &state, err);
        warn(&r);
        if (!rc && count_answers(&r))
            print_summary(&r, &unread);
        if (!rc)
            rc = check_state(&r, &state, err);
        if (!rc && unread.code)
            rc = td_fail(err, unread.code, "%s", unread.msg);
        if (useless)
            td_fs_remove_tree(r.dir, NULL);
    }
    td_run_server_end(&r.started);
    release(&r);
    return rc;
}
