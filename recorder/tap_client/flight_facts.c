/* flight_facts.c - dumps of the flight recorders, and the first op with a bad output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/flight_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "recorder/tap/core/tap_values.h"

#define DUMPS_LISTED 64               /* in the manifest */

static const char *const reason[TAP_DUMP_REASONS] = {
    [TAP_DUMP_NOT_FINITE] = "an output was not finite",
    [TAP_DUMP_ZERO] = "an output was all zero",
    [TAP_DUMP_SIGNAL] = "SIGUSR1",
    [TAP_DUMP_COLLAPSE] = "an answer collapsed",
};

/* ---- dumps ----------------------------------------------------------------------------------- */

bool client_flight_read_dump(struct client_flight *f, struct td_writer *w, int pid,
                             const struct tap_dump *rec)
{
    cJSON *one;

    if (rec->why == TAP_DUMP_NONE || rec->why >= TAP_DUMP_REASONS)
        return false;
    td_writer_count(w, "flight.kept", 1, 0);
    f->dumps = f->dumps ? f->dumps : cJSON_CreateArray();
    if (cJSON_GetArraySize(f->dumps) >= DUMPS_LISTED)
        return true;
    td_log(TD_LOG_WARN, "tap", "process %d: %s; the flight recorder's ring is dumped", pid,
           reason[rec->why]);
    one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "pid", pid);
    cJSON_AddStringToObject(one, "why", reason[rec->why]);
    cJSON_AddNumberToObject(one, "t_ns", (double)rec->rec.t_ns);
    cJSON_AddNumberToObject(one, "ring_bytes", (double)rec->ring_bytes);
    cJSON_AddItemToArray(f->dumps, one);
    return true;
}

const char *client_flight_reason(const struct tap_op *rec)
{
    return reason[rec->dump_reason];
}

/* ---- the first bad op ------------------------------------------------------------------------ */

/* Count the values of a tensor; data NULL: none. */
static struct tap_value_counts look_at(const struct tap_tensor *t, const uint8_t *data)
{
    struct tap_value_counts look = {0};

    if (data)
        tap_values_count(&look, t->dtype, data, t->bytes);
    return look;
}

/* Processes are ranks of one server: the earliest op of all counts, on the clock that they
 * share. */
void client_flight_check_op(struct client_flight *f, const struct client_op *op, const char *layer,
                            int64_t number)
{
    struct client_first_bad *b = &f->bad;
    const struct tap_op *rec = op->rec;
    struct tap_value_counts out, in = {0};
    int i;

    if (b->found && b->t_ns <= rec->rec.t_ns)
        return;
    out = look_at(&op->tensor[rec->n_w + rec->n_in], op->data[rec->n_in]);
    for (i = 0; i < rec->n_in; i++)
        if (op->data[i])
            tap_values_count(&in, op->tensor[rec->n_w + i].dtype, op->data[i],
                        op->tensor[rec->n_w + i].bytes);
    if (!out.not_finite && (!out.n || out.not_zero || (in.n && !in.not_zero)))
        return;
    *b = (struct client_first_bad){.found = true,
                                   .t_ns = rec->rec.t_ns,
                                   .op = number,
                                   .values = out.n,
                                   .not_finite = out.not_finite,
                                   .in_not_finite = in.not_finite,
                                   .m = client_op_attr(op, "m", -1),
                                   .n = client_op_attr(op, "n", -1),
                                   .k = client_op_attr(op, "k", -1)};
    snprintf(b->layer, sizeof b->layer, "%s", layer ? layer : "a layer without a name");
    snprintf(b->symbol, sizeof b->symbol, "%s", rec->symbol);
}

bool client_flight_describe_bad(const struct client_flight *f, char *to, size_t n)
{
    const struct client_first_bad *b = &f->bad;
    char what[120], in[120] = "";

    if (!b->found)
        return false;
    if (b->not_finite)
        snprintf(what, sizeof what,
                 "%" PRIu64 " of %" PRIu64 " values of its output are not finite", b->not_finite,
                 b->values);
    else
        snprintf(what, sizeof what, "all %" PRIu64 " values of its output are zero", b->values);
    if (b->in_not_finite)
        snprintf(in, sizeof in,
                 ", and neither are %" PRIu64
                 " of its input: it began before, outside of what was recorded",
                 b->in_not_finite);
    else
        snprintf(in, sizeof in, ", its inputs all are finite");
    snprintf(to, n,
             "the first bad op is %" PRId64 ": %s, %.200s, M %" PRId64 " N %" PRId64 " K %" PRId64
             ": %s%s",
             b->op, b->layer, b->symbol, b->m, b->n, b->k, what, in);
    return true;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static cJSON *first_bad_fact(const struct client_flight *f)
{
    const struct client_first_bad *b = &f->bad;
    cJSON *o = cJSON_CreateObject();
    char sentence[1024];

    client_flight_describe_bad(f, sentence, sizeof sentence);
    cJSON_AddNumberToObject(o, "op", (double)b->op);
    cJSON_AddStringToObject(o, "layer", b->layer);
    cJSON_AddStringToObject(o, "symbol", b->symbol);
    cJSON_AddNumberToObject(o, "values", (double)b->values);
    cJSON_AddNumberToObject(o, "not_finite", (double)b->not_finite);
    cJSON_AddNumberToObject(o, "inputs_not_finite", (double)b->in_not_finite);
    cJSON_AddStringToObject(o, "sentence", sentence);
    return o;
}

void client_flight_facts(struct client_flight *f, uint32_t mib, struct td_writer *w)
{
    cJSON *o;

    if (!mib || !w) {
        cJSON_Delete(f->dumps);
        f->dumps = NULL;
        return;
    }
    o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "mib", (double)mib);
    cJSON_AddItemToObject(o, "kept", f->dumps ? f->dumps : cJSON_CreateArray());
    f->dumps = NULL;
    if (f->bad.found)
        cJSON_AddItemToObject(o, "first_bad", first_bad_fact(f));
    td_writer_fact(w, "tap", "flight", o);
    cJSON_Delete(o);
}
