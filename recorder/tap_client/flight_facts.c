/* flight_facts.c - what the flight recorders of a server kept, asking them to keep it, and which recorded op was the first bad one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "recorder/tap_client/client_state.h"
#include "recorder/tap/core/tap_look.h"

#define KEPT_MAX 64                   /* facts of the manifest */

static const char *const reason[TAP_FLIGHTS] = {[TAP_FLIGHT_NOT_FINITE] = "an output was not finite", [TAP_FLIGHT_ZERO] = "an output was all zero",
                                                [TAP_FLIGHT_SIGNAL] = "SIGUSR1", [TAP_FLIGHT_COLLAPSE] = "an answer collapsed"};

/* ---- what was kept ------------------------------------------------------------------------------------------------- */

bool client_take_kept(struct td_tap_client *l, const struct client_tap *lk, const struct tap_kept *rec)
{
    cJSON *one;

    if (rec->why == TAP_FLIGHT_NOT || rec->why >= TAP_FLIGHTS)
        return false;
    td_writer_count(l->opt.writer, "flight.kept", 1, 0);
    l->flight.kept = l->flight.kept ? l->flight.kept : cJSON_CreateArray();
    if (cJSON_GetArraySize(l->flight.kept) >= KEPT_MAX)
        return true;
    td_log(TD_LOG_WARN, "tap", "process %d: %s; what the flight recorder has is kept", (int)lk->pid, reason[rec->why]);
    one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "pid", lk->pid);
    cJSON_AddStringToObject(one, "why", reason[rec->why]);
    cJSON_AddNumberToObject(one, "t_ns", (double)rec->rec.t_ns);
    cJSON_AddNumberToObject(one, "ring_bytes", (double)rec->ring_bytes);
    cJSON_AddItemToArray(l->flight.kept, one);
    return true;
}

const char *client_flight_word(const struct tap_op *rec)
{
    return reason[rec->flight];
}

/* ---- the first bad op ---------------------------------------------------------------------------------------------- */

static struct tap_look look_at(const struct tap_tensor *t, const uint8_t *data)
{
    struct tap_look l = {0};

    if (data)
        tap_look_at(&l, t->dtype, data, t->bytes);
    return l;
}

static int64_t attr(const struct client_op *op, const char *name)
{
    int i;

    for (i = 0; i < op->rec->n_attrs; i++)
        if (!strcmp(op->attr[i].name, name))
            return op->attr[i].value;
    return -1;
}

/* Another process is another rank: the earliest of all counts, on the clock that they share. */
void client_flight_look(struct td_tap_client *l, const struct client_op *op, const char *layer, int64_t number)
{
    struct client_bad *b = &l->flight.bad;
    const struct tap_op *rec = op->rec;
    struct tap_look out, in = {0};
    int i;

    if (!l->mode.flight_mib || (b->found && b->t_ns <= rec->rec.t_ns))
        return;
    out = look_at(&op->tensor[rec->n_w + rec->n_in], op->data[rec->n_in]);
    for (i = 0; i < rec->n_in; i++)
        if (op->data[i])
            tap_look_at(&in, op->tensor[rec->n_w + i].dtype, op->data[i], op->tensor[rec->n_w + i].bytes);
    if (!out.not_finite && (!out.n || out.not_zero || (in.n && !in.not_zero)))
        return;
    *b = (struct client_bad){.found = true, .t_ns = rec->rec.t_ns, .op = number, .m = attr(op, "m"), .n = attr(op, "n"), .k = attr(op, "k"),
                            .values = out.n, .not_finite = out.not_finite, .in_not_finite = in.not_finite};
    snprintf(b->layer, sizeof b->layer, "%s", layer ? layer : "a layer without a name");
    snprintf(b->symbol, sizeof b->symbol, "%s", rec->symbol);
}

static void say_bad(const struct client_bad *b, char *to, size_t n)
{
    char what[120], in[120] = "";

    if (b->not_finite)
        snprintf(what, sizeof what, "%" PRIu64 " of %" PRIu64 " values of its output are not finite", b->not_finite, b->values);
    else
        snprintf(what, sizeof what, "all %" PRIu64 " values of its output are zero", b->values);
    if (b->in_not_finite)
        snprintf(in, sizeof in, ", and neither are %" PRIu64 " of its input: it began before, outside of what was recorded", b->in_not_finite);
    else
        snprintf(in, sizeof in, ", its inputs all are finite");
    snprintf(to, n, "the first bad op is %" PRId64 ": %s, %.200s, M %" PRId64 " N %" PRId64 " K %" PRId64 ": %s%s", b->op, b->layer, b->symbol, b->m, b->n, b->k, what, in);
}

bool td_tap_client_first_bad(struct td_tap_client *l, char *to, size_t n)
{
    bool found;

    pthread_mutex_lock(&l->lock);
    found = l->flight.bad.found;
    if (found)
        say_bad(&l->flight.bad, to, n);
    pthread_mutex_unlock(&l->lock);
    return found;
}

/* ---- facts --------------------------------------------------------------------------------------------------------- */

static cJSON *describe_bad(const struct client_bad *b)
{
    cJSON *o = cJSON_CreateObject();
    char sentence[1024];

    say_bad(b, sentence, sizeof sentence);
    cJSON_AddNumberToObject(o, "op", (double)b->op);
    cJSON_AddStringToObject(o, "layer", b->layer);
    cJSON_AddStringToObject(o, "symbol", b->symbol);
    cJSON_AddNumberToObject(o, "values", (double)b->values);
    cJSON_AddNumberToObject(o, "not_finite", (double)b->not_finite);
    cJSON_AddNumberToObject(o, "inputs_not_finite", (double)b->in_not_finite);
    cJSON_AddStringToObject(o, "sentence", sentence);
    return o;
}

void client_flight_facts(struct td_tap_client *l)
{
    cJSON *o;

    if (!l->mode.flight_mib || !l->opt.writer) {
        cJSON_Delete(l->flight.kept);
        return;
    }
    o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "mib", (double)l->mode.flight_mib);
    cJSON_AddItemToObject(o, "kept", l->flight.kept ? l->flight.kept : cJSON_CreateArray());
    l->flight.kept = NULL;
    if (l->flight.bad.found)
        cJSON_AddItemToObject(o, "first_bad", describe_bad(&l->flight.bad));
    td_writer_fact(l->opt.writer, "tap", "flight", o);
    cJSON_Delete(o);
}

/* ---- asking -------------------------------------------------------------------------------------------------------- */

/* False: nobody could; *busy: another message is on its way, ask again. */
static bool keep(struct td_tap_client *l, enum tap_flight why, bool *busy)
{
    int i, n = 0;

    *busy = pthread_mutex_trylock(&l->talk) != 0; /* a tap that disarms waits for the pump, which may be us */
    if (*busy)
        return false;
    for (i = 0; i < l->n; i++) {
        struct tap_msg m = {.type = TAP_KEEP, .mode = why}, reply;
        struct td_error err = {0};

        if (!l->link[i].alive || !l->link[i].armed)
            continue;
        if (client_ask(&l->link[i], &m, &reply, CLIENT_KEEP_MS, &err))
            td_log(TD_LOG_INFO, "tap", "%s", err.msg);
        else
            n++;
    }
    pthread_mutex_unlock(&l->talk);
    return n > 0;
}

void client_flight_poll(struct td_tap_client *l)
{
    bool busy = false;

    if (!l->opt.keep || !*l->opt.keep)
        return;
    if (!keep(l, TAP_FLIGHT_SIGNAL, &busy) && !busy)
        td_log(TD_LOG_WARN, "tap", "SIGUSR1: no flight recorder is on its way (it runs in the tapped repeats, on a GPU), or what it has is being kept already");
    if (!busy)
        *l->opt.keep = 0;
}

bool td_tap_client_keep(struct td_tap_client *l)
{
    bool busy;

    return l->mode.flight_mib && keep(l, TAP_FLIGHT_COLLAPSE, &busy);
}
