/* gpu_shares.c - the share of each kernel in the GPU's time, as the taps measured it in a window.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/gpu_shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/kernel_names.h"
#include "recorder/tap_client/client_text.h"

#define MOST ((int64_t)1 << 52)        /* of one number: sums of all do not overflow */
#define NAMED 3                        /* kernels that the summary names */

static const char *const seen_words[] = {"unknown", "recorded", "not recorded"};

/* ---- asking ---------------------------------------------------------------------------------- */

static int ask(struct client_tap *tap, enum tap_times_step step, uint32_t number,
               struct tap_msg *reply, struct td_error *err)
{
    struct tap_msg m = {.type = TAP_TIMES, .mode = step, .number = number};
    int rc = client_tap_ask(tap, &m, reply, CLIENT_SHARES_ANSWER_MS, err);

    if (!rc && (reply->launches > (uint64_t)MOST || reply->time_ns > (uint64_t)MOST ||
                reply->window_ns > (uint64_t)MOST || reply->number > TAP_TIMES_KERNELS ||
                reply->mode > TAP_SEEN_NOT ||
                !client_is_text(reply->kernel, sizeof reply->kernel, true)))
        rc = td_fail(err, TD_EPROTO, "process %d: the tap tells times that make no sense",
                     (int)tap->pid);
    return rc;
}

/* What the tap says, or why it does not answer. */
static void note_failure(struct client_shares *s, const struct tap_msg *reply,
                         const struct td_error *err)
{
    bool said = reply->status == TAP_REFUSED && client_is_text(reply->text, TAP_TEXT, false);

    if (!s->why[0])
        snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1,
                 said ? reply->text : err->msg);
}

bool client_shares_begin(struct client_shares *s, struct client_tap *tap, uint32_t ms)
{
    struct td_error err = {0};
    struct tap_msg reply = {0};

    s->asked = true;
    if (!ask(tap, TAP_TIMES_BEGIN, ms, &reply, &err))
        return true;
    note_failure(s, &reply, &err);
    return false;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static struct client_share *find(struct client_shares *s, const char *symbol, enum tap_seen seen)
{
    struct client_share *one;
    uint32_t i;

    for (i = 0; i < s->n && strcmp(s->all[i].symbol, symbol); i++)
        ;
    if (i < s->n)
        return &s->all[i];
    if (s->n == CLIENT_SHARES_MAX)
        return NULL;
    if (!(s->n & (s->n - 1))) {        /* a power of two, or none: full */
        one = realloc(s->all, (s->n ? 2 * s->n : 1) * sizeof *one);
        if (!one)
            return NULL;
        s->all = one;
    }
    s->all[s->n] = (struct client_share){.seen = seen, .symbol = strdup(symbol)};
    return s->all[s->n].symbol ? &s->all[s->n++] : NULL;
}

static void add_kernel(struct client_shares *s, const struct tap_msg *m)
{
    enum tap_seen seen = m->kernel[0] ? (enum tap_seen)m->mode : TAP_SEEN_UNKNOWN;
    struct client_share *one = find(s, m->kernel, seen);

    if (!one) {                        /* its time is in the sum of all */
        one = find(s, "", TAP_SEEN_UNKNOWN);
        if (!one)
            return;
    }
    if (one->seen != seen)
        one->seen = TAP_SEEN_UNKNOWN;
    one->n += (int64_t)m->launches;
    one->ns += (int64_t)m->time_ns;
}

void client_shares_end(struct client_shares *s, struct client_tap *tap)
{
    struct td_error err = {0};
    struct tap_msg end = {0}, one = {0};
    uint32_t i;
    int rc = ask(tap, TAP_TIMES_END, 0, &end, &err);

    for (i = 0; !rc && i < end.number; i++) {
        rc = ask(tap, TAP_TIMES_GET, i, &one, &err);
        if (!rc)
            add_kernel(s, &one);
    }
    if (rc) {
        note_failure(s, one.status ? &one : &end, &err);
        return;
    }
    s->launches += (int64_t)end.launches;
    s->ns += (int64_t)end.time_ns;
    s->lost += end.lost;
    s->window_ns = (int64_t)end.window_ns > s->window_ns ? (int64_t)end.window_ns : s->window_ns;
}

/* ---- telling --------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct client_share *x = a, *y = b;

    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : strcmp(x->symbol, y->symbol);
}

static void name_unread(const struct client_share *k, int64_t ns, char *out, size_t n)
{
    size_t at = strlen(out);
    char name[80];

    td_kernel_short_name(k->symbol, name, sizeof name);
    snprintf(out + at, n - at, "%s%s %.1f %%", at ? ", " : "", name,
             100.0 * (double)k->ns / (double)ns);
}

void client_shares_state(const struct client_shares *s, struct td_tap_client_gpu_time *out)
{
    uint32_t i;
    int named = 0, doubted = 0;

    *out = (struct td_tap_client_gpu_time){.asked = s->asked, .launches = s->launches,
                                           .lost = s->lost, .ns = s->ns, .window_ns = s->window_ns};
    snprintf(out->why, sizeof out->why, "%.*s", (int)sizeof out->why - 1, s->why);
    for (i = 0; i < s->n; i++) {
        const struct client_share *k = &s->all[i];

        if (k->seen == TAP_SEEN_RECORDED)
            out->recorded_ns += k->ns;
        else if (td_kernel_is_attention(k->symbol))
            out->attention_ns += k->ns;
        else if (td_kernel_is_gemm(k->symbol) && k->seen == TAP_SEEN_NOT && named++ < NAMED)
            name_unread(k, s->ns, out->unread, sizeof out->unread);
        else if (td_kernel_is_gemm(k->symbol) && k->seen == TAP_SEEN_UNKNOWN && doubted++ < NAMED)
            name_unread(k, s->ns, out->unknown, sizeof out->unknown);
    }
}

void client_shares_facts(const struct client_shares *s, struct td_writer *w)
{
    cJSON *o, *all, *one;
    uint32_t i;

    if (!s->asked)
        return;
    o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "window_ms", (double)s->window_ns / 1e6);
    cJSON_AddNumberToObject(o, "launches", (double)s->launches);
    cJSON_AddNumberToObject(o, "lost", (double)s->lost);
    cJSON_AddNumberToObject(o, "ms", (double)s->ns / 1e6);
    if (s->why[0])
        cJSON_AddStringToObject(o, "why", s->why);
    all = cJSON_AddArrayToObject(o, "kernels");
    for (i = 0; i < s->n; i++) {
        one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "symbol", s->all[i].symbol);
        cJSON_AddNumberToObject(one, "launches", (double)s->all[i].n);
        cJSON_AddNumberToObject(one, "ms", (double)s->all[i].ns / 1e6);
        cJSON_AddStringToObject(one, "seen", seen_words[s->all[i].seen]);
        cJSON_AddItemToArray(all, one);
    }
    td_writer_fact(w, "tap", "gpu_time", o);
    cJSON_Delete(o);
}

void client_shares_sort(struct client_shares *s)
{
    if (s->n)
        qsort(s->all, s->n, sizeof *s->all, by_time);
}

void client_shares_release(struct client_shares *s)
{
    uint32_t i;

    for (i = 0; i < s->n; i++)
        free(s->all[i].symbol);
    free(s->all);
    memset(s, 0, sizeof *s);
}
