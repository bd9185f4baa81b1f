/* recording_facts.c - the facts of a recording, for the fixture's manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_facts.h"

#include <stdio.h>
#include <string.h>

#include "format/host_facts.h"
#include "recorder/recording_state.h"
#include "wire/api_facts.h"

static void write_fact(struct td_recording *r, const char *section, const char *key, cJSON *v)
{
    td_writer_fact(r->writer, section, key, v);
    cJSON_Delete(v);
}

/* What was asked of the active client, where that is not the default. */
static void write_load(struct td_recording *r)
{
    const struct td_record_options *o = r->opt;

    if (o->rate > 0) {
        write_fact(r, "options", "rate", cJSON_CreateNumber(o->rate));
        td_writer_fact_str(r->writer, "options", "arrival", td_arrival_name(o->load.kind));
    }
    if (o->rate > 0 && o->load.kind == TD_ARRIVAL_GAMMA)
        write_fact(r, "options", "arrival_shape", cJSON_CreateNumber(o->load.shape));
    if (o->requests)
        write_fact(r, "options", "requests", cJSON_CreateNumber((double)o->requests));
    if (o->duration_s > 0)
        write_fact(r, "options", "duration_s", cJSON_CreateNumber(o->duration_s));
    if (strcmp(o->connections, "pooled"))
        td_writer_fact_str(r->writer, "options", "connections", o->connections);
    if (o->warmup)
        write_fact(r, "options", "warmup", cJSON_CreateNumber((double)o->warmup));
}

void td_recording_facts_begin(struct td_recording *r)
{
    const struct td_record_options *o = r->opt;
    char hex[TD_HASH_HEX];

    td_host_facts_write(r->writer);
    td_recording_plan_begin(r);
    td_hash_hex(r->suite.hash, hex);
    td_writer_fact_str(r->writer, "suite", "name", r->suite.name);
    write_fact(r, "suite", "prompts", cJSON_CreateNumber((double)r->suite.n));
    write_fact(r, "suite", "repeat", cJSON_CreateNumber((double)r->load.repeats));
    td_writer_fact_str(r->writer, "suite", "hash", hex);
    write_fact(r, "options", "concurrency", cJSON_CreateNumber((double)o->concurrency));
    write_load(r);
    write_fact(r, "options", "tapped_repeat", cJSON_CreateNumber((double)o->tapped_repeat));
    td_writer_fact_str(r->writer, "options", "gemms", o->gemms);
    if (o->digests)
        td_writer_fact_str(r->writer, "options", "outputs", "digest");
    td_writer_fact_str(r->writer, "options", "request_id_nonce", r->nonce);
    if (r->started.proc.pid > 0)
        write_fact(r, "server", "pid", cJSON_CreateNumber(r->started.proc.pid));
    if (o->command) {
        cJSON *argv = cJSON_CreateStringArray((const char *const *)o->command, 1);
        char **a;

        for (a = o->command + 1; *a; a++)
            cJSON_AddItemToArray(argv, cJSON_CreateString(*a));
        write_fact(r, "server", "command", argv);
    }
}

static void write_ids_extra(struct td_recording *r)
{
    char why[120] = "";

    if (r->summary.ids_incomplete)
        snprintf(why, sizeof why, "ids are missing in %lld answers",
                 (long long)r->summary.ids_incomplete);
    else if (r->ids_filled)
        snprintf(why, sizeof why, "in %lld answers by a second request, unstreamed",
                 (long long)r->ids_filled);
    td_extras_set(&r->extras, "token_ids_complete", r->summary.ids_incomplete ? "no" : "yes", why);
}

static void write_extras(struct td_recording *r)
{
    cJSON *change;

    if (!r->interrupted && !r->server_gone)
        td_extras_server_info(&r->extras, &r->server, r->opt->headers, r->writer);
    if (r->have_sample)
        td_extras_check_answer(&r->extras, &r->server, &r->sample, r->nonce);
    if (r->have_sample && r->sample.token_ids)
        write_ids_extra(r);
    td_scores_extra(&r->scores, &r->server, &r->extras);
    td_extras_write_fact(&r->extras, r->writer);
    if (r->metrics[0].n && r->metrics[1].n) {
        change = td_metrics_change(&r->metrics[0], &r->metrics[1]);
        write_fact(r, "metrics", "timed", change);
    }
    if (*r->engine)
        td_writer_fact_str(r->writer, "server", "engine", r->engine);
}

void td_recording_facts_end(struct td_recording *r)
{
    td_api_write_facts(r->writer, &r->server, &r->sampling, r->have_sample ? &r->sample : NULL);
    write_extras(r);
}
