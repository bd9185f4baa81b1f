/* client_facts.c - section "tap" of the manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/client_facts.h"

static void write_fact(struct td_writer *w, const char *key, cJSON *value)
{
    td_writer_fact(w, "tap", key, value);
    cJSON_Delete(value);
}

static cJSON *describe_mode(const struct td_tap_client_mode *m)
{
    static const char *const name[] = {"off", "sample", "all"};
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "take", name[m->steps]);
    if (m->steps == TD_TAP_CLIENT_SAMPLE)
        cJSON_AddNumberToObject(o, "percent", m->percent);
    if (m->steps == TD_TAP_CLIENT_SAMPLE && m->time_ppm)
        cJSON_AddNumberToObject(o, "time_percent", m->time_ppm / 1e4);
    if (m->steps != TD_TAP_CLIENT_OFF)
        cJSON_AddNumberToObject(o, "budget_bytes_per_s", (double)m->budget_bytes_per_s);
    if (m->steps != TD_TAP_CLIENT_OFF)
        cJSON_AddStringToObject(o, "kinds", m->all_kinds ? "all" : "gemm");
    if (m->steps != TD_TAP_CLIENT_OFF && m->flight_mib)
        cJSON_AddNumberToObject(o, "flight_mib", m->flight_mib);
    if (m->steps != TD_TAP_CLIENT_OFF && m->no_launches)
        cJSON_AddBoolToObject(o, "launches", false);
    return o;
}

static cJSON *describe_process(const struct client_tap *tap)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddNumberToObject(o, "pid", tap->pid);
    cJSON_AddStringToObject(o, "library", tap->library);
    cJSON_AddStringToObject(o, "build", tap->build);
    cJSON_AddStringToObject(o, "fronts", tap->fronts);
    if (tap->title[0])
        cJSON_AddStringToObject(o, "title", tap->title);
    if (tap->rank >= 0)
        cJSON_AddNumberToObject(o, "rank", tap->rank);
    return o;
}

void client_facts_without(struct td_writer *w, const char *reason)
{
    write_fact(w, "present", cJSON_CreateFalse());
    td_writer_fact_str(w, "tap", "reason", reason);
}

void client_facts_write(const struct td_tap_client *c, struct td_writer *w)
{
    const struct client_tap *first = &c->tap[0];
    cJSON *all;
    int i;

    write_fact(w, "present", cJSON_CreateTrue());
    write_fact(w, "protocol", cJSON_CreateNumber(TAP_VERSION));
    write_fact(w, "pid", cJSON_CreateNumber(first->pid));
    td_writer_fact_str(w, "tap", "library", first->library);
    td_writer_fact_str(w, "tap", "build", first->build);
    write_fact(w, "mode", describe_mode(&c->mode));
    td_writer_fact_str(w, "tap", "checkpoint", c->layers ? td_layer_index_path(c->layers) : "");
    if (c->why_no_layers)
        td_writer_fact_str(w, "tap", "no_layer_names", c->why_no_layers);
    all = cJSON_CreateArray();
    for (i = 0; i < c->n; i++)
        cJSON_AddItemToArray(all, describe_process(&c->tap[i]));
    write_fact(w, "processes", all);
}
