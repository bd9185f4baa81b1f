/* dry_run.c - say what would be sent and recorded, and how large it becomes, without recording.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/dry_run.h"

#include <stdio.h>
#include <string.h>

#include "common/clean.h"
#include "recorder/expected_size.h"
#include "wire/scores.h"

#define ASK_MS 3000
#define DEFAULT_SHARE 10.0     /* % of the steps */

static const char *size_words(int64_t bytes, char out[24])
{
    const double mib = (double)bytes / (1 << 20);

    snprintf(out, 24, mib < 10 ? "%.1f MiB" : mib < 10240 ? "%.0f MiB" : "%.0f GiB",
             mib < 10240 ? mib : mib / 1024);
    return out;
}

/* Ask the server that runs already for its model. Returns whether it answered. */
static bool ask_server(const struct td_record_options *o, struct td_api_server *server)
{
    struct td_api_options api = {.server = o->server,
                                 .kind = o->api,
                                 .model = o->model,
                                 .headers = o->headers,
                                 .timeout_ms = ASK_MS};
    struct td_error why = {0};
    struct td_buf line = TD_BUF_INIT(1 << 14), clean = TD_BUF_INIT(1 << 16);

    if (o->command)
        printf("server   would be started: %s\n", o->command[0]);
    if (o->command)
        return false;
    if (td_api_probe(&api, server, &why))
        td_buf_addf(&line, "%s", why.msg);
    else
        td_buf_addf(&line, "%s: %s %s, model %s", server->url, td_api_name(server->kind),
                    server->version, server->model);
    td_clean_line(td_buf_str(&line), line.len, &clean);
    printf("server   %s\n", td_buf_str(&clean));
    td_buf_release(&line);
    td_buf_release(&clean);
    return !why.code;
}

/* Where the model's files are: as told, as the server says, or as its command line says. */
static const char *find_checkpoint(const struct td_record_options *o,
                                   const struct td_api_server *server)
{
    char **a;

    if (o->checkpoint)
        return o->checkpoint;
    for (a = o->command; a && *a; a++)
        if (a[1] && (!strcmp(*a, "--model") || !strcmp(*a, "-m") || !strcmp(*a, "serve")))
            return a[1];
    return *server->root ? server->root : NULL;
}

static void print_requests(const struct td_record_options *o, const struct td_suite *suite,
                           const struct td_api_server *server, bool answered,
                           const struct td_expected_requests *q)
{
    char tapped[60] = "";

    if (q->tapped)
        snprintf(tapped, sizeof tapped, ", %lld for ops where there is a tap",
                 (long long)q->tapped);
    char starts[80] = "", load[100];

    if (o->starts > 1)
        snprintf(starts, sizeof starts, " (%lld on each of %lld starts)", (long long)(o->repeat / o->starts), (long long)o->starts);
    printf("send     %zu prompts%s%s: %lld requests to be timed%s%s; at most %lld "
           "tokens in all\n",
           suite->n, td_record_load_words(o, &q->load, load, sizeof load), starts, (long long)q->timed,
           q->load.until_time ? " at least" : "", tapped, (long long)q->tokens);
    if (q->scores && (!answered || td_scores_offered(server)))
        printf("         at most %lld requests to score answers%s\n", (long long)q->scores,
               answered ? "" : ", where the server offers it");
}

/* The share of the steps whose ops are recorded. */
static double share_of(const struct td_record_options *o)
{
    if (o->mode.steps == TD_TAP_CLIENT_ALL)
        return 1;
    return (o->mode.percent > 0 ? o->mode.percent : DEFAULT_SHARE) / 100;
}

static void print_ops(const struct td_record_options *o)
{
    if (o->mode.steps == TD_TAP_CLIENT_OFF)
        printf("ops      none: --gemms off\n");
    else
        printf("ops      %s of %s steps%s%s, where the tap is in the server\n",
               o->mode.all_kinds ? "all ops" : "GEMMs",
               o->mode.steps == TD_TAP_CLIENT_ALL ? "all" : "a sample of the",
               o->layers ? ", of the layers " : "", o->layers ? o->layers : "");
}

static void print_size(const struct td_record_options *o, const struct td_api_server *server,
                       const struct td_expected_requests *q)
{
    const char *checkpoint = find_checkpoint(o, server);
    /* a sample takes the first steps of every size: nearly all prompts, and its share of the rest */
    const double sampled = (double)q->decoded * share_of(o) + (double)q->first_rows,
                 rows = (sampled < (double)q->decoded ? sampled : (double)q->decoded) +
                        (double)q->prompt_rows;
    struct td_expected_model m = {0};
    struct td_error why = {0};
    char a[24], b[24];
    int64_t about, most;

    printf("size     requests and answers: at most %s, before compression\n",
           size_words(q->bytes, a));
    if (o->mode.steps == TD_TAP_CLIENT_OFF)
        return;
    if (!checkpoint || td_expected_model_read(checkpoint, &m, &why)) {
        printf("         ops: not known without the model's files; --checkpoint names them%s%s\n",
               *why.msg ? ": " : "", why.msg);
        return;
    }
    m.weights = o->weights_by_reference ? 0 : m.weights;
    about = (int64_t)(rows * (double)m.row);
    most = (int64_t)((double)q->rows * (double)m.row);
    printf("         weights, once: at most %s%s\n", size_words(m.weights, a),
           o->weights_by_reference ? "" : "; --weights-by-reference leaves them out");
    printf("         inputs and outputs of GEMMs: about %s, at most %s\n", size_words(about, a),
           size_words(most, b));
    if (o->mode.all_kinds)
        printf("         every other op as well: several times as much, and not estimated\n");
    printf("in all   about %s, at most %s\n", size_words(q->bytes / 8 + m.weights + about, a),
           size_words(q->bytes + m.weights + most, b));
}

int td_dry_run(const struct td_record_options *o, struct td_error *err)
{
    struct td_api_server server = {0};
    struct td_expected_requests q;
    struct td_suite suite = {0};
    bool answered;
    int rc = td_suite_load(o->suite, &suite, err);

    if (rc)
        return rc;
    rc = td_expected_requests(o, &suite, &q, err);
    if (rc) {
        td_suite_release(&suite);
        return rc;
    }
    answered = ask_server(o, &server);
    print_requests(o, &suite, &server, answered, &q);
    print_ops(o);
    print_size(o, &server, &q);
    printf("nothing was recorded (--dry-run)\n");
    td_suite_release(&suite);
    return TD_OK;
}
