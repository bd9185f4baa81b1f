/* derive.c - make exchanges of the wire log, with one state per stream.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/derive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/hidden.h"
#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/answer.h"
#include "wire/answer_alike.h"
#include "wire/answer_checks.h"
#include "wire/answer_event.h"
#include "wire/answer_scores.h"
#include "wire/http.h"
#include "wire/long_exchange.h"
#include "wire/sse.h"

#define MAX_OPEN 65536
#define LISTS 4096             /* of open streams: short ones, for each packet looks for its stream */
#define MAX_REQUEST ((size_t)64 << 20)

enum body_mode { BODY_UNDECIDED, BODY_SSE, BODY_PLAIN };

struct stream {
    uint32_t number;
    struct stream *next;       /* another open one of the same list */
    cJSON *open, *close, *uncompressed; /* the notes, or NULL */
    struct td_http request, response;
    struct td_buf request_body, body;
    struct td_sse sse;
    enum body_mode mode;
    struct td_answer answer; struct td_answer_alike alike;
    int64_t t_now, t_sent, t_first, t_last;
    int64_t t_open;            /* of the open note: the request began here */
};

/* 64 streams: numbers that follow one another, as a recording gives them, take little memory for ever. */
struct slot { uint32_t number; bool used; uint64_t closed; }; /* number: of a stream, by 64 */

struct td_deriver {
    td_derive_emit_fn *emit; void *arg;
    struct slot *slots; size_t n_slots, n_used, n_open; /* n_open streams; open addressing; n_slots is a power of two */
    struct stream *open[LISTS];
    int64_t late;
    struct td_end_marks marks;
};

/* ---- the table of streams ----------------------------------------------------------------------------------------- */

static struct slot *find_slot(struct slot *slots, size_t n_slots, uint32_t number)
{
    size_t i = (number * 2654435761u) & (n_slots - 1);

    while (slots[i].used && slots[i].number != number)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static struct slot *slot_of(struct td_deriver *d, uint32_t stream)
{
    return find_slot(d->slots, d->n_slots, stream / 64);
}

static uint64_t bit_of(uint32_t stream)
{
    return UINT64_C(1) << stream % 64;
}

static struct stream **list_of(struct td_deriver *d, uint32_t stream)
{
    return &d->open[stream % LISTS];
}

static int grow_slots(struct td_deriver *d)
{
    size_t n = d->n_slots ? d->n_slots * 2 : 64, i;
    struct slot *bigger = calloc(n, sizeof *bigger);

    if (!bigger)
        return TD_ENOMEM;
    for (i = 0; i < d->n_slots; i++)
        if (d->slots[i].used)
            *find_slot(bigger, n, d->slots[i].number) = d->slots[i];
    free(d->slots);
    d->slots = bigger;
    d->n_slots = n;
    return TD_OK;
}

static void on_request_body(void *arg, const char *bytes, size_t n)
{
    struct stream *s = arg;

    td_buf_add(&s->request_body, bytes, n);
}

static void on_sse(void *arg, const struct td_sse_event *ev)
{
    struct stream *s = arg;

    if (s->answer.end_mark)
        s->answer.late_events++;
    else if (ev->error)
        td_answer_stream_error(&s->answer, ev->data, ev->len);
    else
        td_answer_read_event(&s->answer, &s->alike, ev->data, ev->len, s->t_now);
}

static enum body_mode decide_body_mode(const struct td_http *h, const char *bytes, size_t n)
{
    if (h->status >= 300)
        return BODY_PLAIN;
    if (!strncasecmp(h->content_type, "text/event-stream", 17))
        return BODY_SSE;
    return n >= 5 && !memcmp(bytes, "data:", 5) ? BODY_SSE : BODY_PLAIN;
}

static void on_body(void *arg, const char *bytes, size_t n)
{
    struct stream *s = arg;

    if (s->mode == BODY_UNDECIDED)
        s->mode = decide_body_mode(&s->response, bytes, n);
    if (s->mode == BODY_SSE)
        td_sse_feed(&s->sse, bytes, n);
    else
        td_buf_add(&s->body, bytes, n);
}

static struct stream *stream_new(uint32_t number)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->number = number;
    td_http_init(&s->request, true, on_request_body, s);
    td_http_init(&s->response, false, on_body, s);
    td_buf_init(&s->request_body, MAX_REQUEST);
    td_buf_init(&s->body, (size_t)TD_HTTP_MAX_WHOLE);
    td_sse_init(&s->sse, on_sse, s);
    td_answer_init(&s->answer);
    td_answer_alike_init(&s->alike);
    return s;
}

static void stream_free(struct stream *s)
{
    if (!s)
        return;
    cJSON_Delete(s->open);
    cJSON_Delete(s->close);
    cJSON_Delete(s->uncompressed);
    td_http_release(&s->request);
    td_http_release(&s->response);
    td_buf_release(&s->request_body);
    td_buf_release(&s->body);
    td_sse_release(&s->sse);
    td_answer_release(&s->answer);
    td_answer_alike_release(&s->alike);
    free(s);
}

struct td_deriver *td_deriver_new(td_derive_emit_fn *emit, void *arg)
{
    struct td_deriver *d = calloc(1, sizeof *d);

    if (d) {
        d->emit = emit;
        d->arg = arg;
    }
    return d;
}

void td_deriver_free(struct td_deriver *d)
{
    struct stream *s, *next;
    size_t i;

    if (!d)
        return;
    for (i = 0; i < LISTS; i++)
        for (s = d->open[i]; s; s = next) {
            next = s->next;
            stream_free(s);
        }
    free(d->slots);
    free(d);
}

int64_t td_deriver_late(const struct td_deriver *d)
{
    return d->late;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Read a complete body when the stream ends: as an answer, or as the reason of an HTTP error. */
static void read_complete_body(struct stream *s, bool complete)
{
    struct td_answer *a = &s->answer;
    char shown[101];

    if (s->response.status >= 300 || td_http_is_bodiless(s->response.status)) {
        td_answer_http_error(a, s->response.status, s->response.location, td_buf_str(&s->body), s->body.len);
    } else if (s->body.failed) {
        td_answer_fail(a, "parse", "the answer is longer than %lld MiB and not streamed",
                       (long long)TD_HTTP_MAX_WHOLE >> 20);
    } else if (complete && *s->response.encoding && strcasecmp(s->response.encoding, "identity")) {
        td_answer_fail(a, "parse", "the answer is compressed (%s), which was not asked for", s->response.encoding);
    } else if (complete && s->mode != BODY_SSE) {
        td_answer_read(a, td_buf_str(&s->body), s->body.len, s->t_last, false);
        a->done = a->shaped;
        if (!a->shaped) {
            td_hidden_cut(shown, sizeof shown, td_buf_str(&s->body), s->body.len);
            td_answer_fail(a, "parse", "the answer is JSON, but holds neither choices nor content: \"%s\"", shown);
        }
    }
}

static void check_sse(struct stream *s, bool complete)
{
    struct td_answer *a = &s->answer;
    const size_t pending = td_sse_pending(&s->sse);

    if (complete && td_sse_ends_with(&s->sse, "[DONE]"))
        a->done = a->end_mark = true;
    else if (complete && !a->end_mark && pending && td_buf_str(&s->sse.line)[0] != ':')
        td_answer_fail(a, "cut", "the stream ended within an event, of which %zu bytes came", pending);

    if (s->sse.dropped || s->sse.line.failed)
        td_answer_fail(a, "parse", "an event is longer than %zu MiB", TD_SSE_MAX_EVENT >> 20);
    if (complete && !a->shaped)
        td_answer_fail(a, "parse", "the stream ended without one event that is an answer (%lld events)",
                       (long long)s->sse.events);
}

static void fail_by_note(struct stream *s, const cJSON *close)
{
    static const char *const kinds[] = {"connect", "timeout", "http", "stream", "parse", "cut", "server", TD_ERROR_UNSEEN};
    const char *kind = td_json_get_str(close, "kind", "cut");
    size_t i;

    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i]))
            td_answer_fail(&s->answer, kinds[i], "%s", td_json_get_str(close, "error", "the transfer failed"));
    td_answer_fail(&s->answer, "cut", "%s: %s", kind, td_json_get_str(close, "error", "the transfer failed"));
}

/* Find the first error, in the order of derive.h. */
static void find_first_error(struct td_deriver *d, struct stream *s)
{
    struct td_answer *a = &s->answer;
    const cJSON *close = td_json_get(s->close, "close");
    bool ok = td_json_get_bool(close, "ok", false);
    bool complete = td_http_complete(&s->response, ok);

    if (s->mode == BODY_UNDECIDED)
        s->mode = decide_body_mode(&s->response, "", 0);
    if (s->response.status == 206)
        td_answer_fail(a, "http", "HTTP 206: the server sent a part of the answer, which was not asked for");
    else if (s->response.status > 200 && s->response.status < 300 && !td_http_is_bodiless(s->response.status))
        td_answer_fail(a, "http", "HTTP %d: an answer has status 200", s->response.status);
    else if (s->response.status == 200 && !td_answer_type_fits(s->response.content_type, s->mode == BODY_SSE))
        td_answer_fail(a, "parse", "the answer is of type \"%.60s\": JSON or an event stream is due",
                       s->response.content_type);
    if (s->response.status)
        read_complete_body(s, complete);
    if (s->response.state == TD_HTTP_BAD)
        td_answer_fail(a, "parse", "%s", s->response.bad);
    if (s->mode == BODY_SSE)
        check_sse(s, complete && ok);
    if (complete && ok && a->shaped && !a->answered)
        td_answer_fail(a, "parse", "the answer holds no choice 0");
    if (a->limit)
        td_answer_fail(a, "parse", "the answer has more tokens than the maximum of %d",
                       TD_ANSWER_MAX_TOKENS);
    if (close && !ok)
        fail_by_note(s, close);
    else if (!close)
        td_answer_fail(a, "cut", "the recording ends before the answer does");
    else if (!s->response.status)
        td_answer_fail(a, "cut", "the connection was closed without an answer");
    else if (!complete || (!a->done && !a->finish_reason))
        td_answer_fail(a, "cut", "the answer ended after %zu tokens without an end mark", a->n_tokens);
    else if (s->mode == BODY_SSE && !a->done && td_end_marks_has(&d->marks, s->request.path))
        td_answer_fail(a, "cut", TD_END_MARK_MISSING, "this server");
    else if (a->end_mark && !a->error_kind)
        td_end_marks_add(&d->marks, s->request.path);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------- */

static char *dup_or_default(const char *s, const char *fallback)
{
    return s || fallback ? td_strdup(s ? s : fallback) : NULL;
}

static void read_open_note(struct stream *s, struct td_exchange *x)
{
    const cJSON *o = td_json_get(s->open, "open");
    const char *phase = td_json_get_str(o, "phase", "timed");
    char unnamed[32];

    snprintf(unnamed, sizeof unnamed, "stream-%u", s->number);
    x->prompt_id = dup_or_default(td_json_get_str(o, "prompt_id", NULL), unnamed);
    x->category = dup_or_default(td_json_get_str(o, "category", NULL), "");
    x->repeat = (int32_t)td_json_get_i64(o, "repeat", 0);
    x->concurrency = (int32_t)td_json_get_i64(o, "concurrency", 1);
    x->phase = !strcmp(phase, "tapped") ? TD_PHASE_TAPPED : !strcmp(phase, "warmup") ? TD_PHASE_WARMUP : TD_PHASE_TIMED;
    x->api = dup_or_default(td_json_get_str(o, "api", NULL), "openai");
    x->method = dup_or_default(td_json_get_str(o, "method", NULL),
                               *s->request.method ? s->request.method : "POST");
    x->scored_from = td_json_get_i64(o, "scored_from", 0) > 0 ? td_answer_id(td_json_get(o, "scored_from")) : 0;
    x->path = dup_or_default(td_json_get_str(o, "path", NULL), s->request.path);
}

static void add_extra_i64(cJSON *extra, const char *key, int64_t v)
{
    if (v)
        cJSON_AddNumberToObject(extra, key, (double)v);
}

/* What the server says it computed, as far as it does. */
static void add_computed(cJSON *extra, const struct td_answer_computed *c)
{
    cJSON *o = c->prompt >= 0 || c->cached >= 0 ? cJSON_AddObjectToObject(extra, "computed") : NULL;

    if (o && c->prompt >= 0)
        cJSON_AddNumberToObject(o, "prompt", (double)c->prompt);
    if (o && c->cached >= 0)
        cJSON_AddNumberToObject(o, "cached", (double)c->cached);
    if (o && c->answer >= 0)
        cJSON_AddNumberToObject(o, "answer", (double)c->answer);
}

/* The server's name for its model, where the request had another one or none. llama.cpp says the path of a file, and is
 * asked by the file's name. */
static const char *other_model(const struct stream *s, const cJSON *request)
{
    const char *said = s->answer.model, *slash = said ? strrchr(said, '/') : NULL, *asked = td_json_get_str(request, "model", "");

    return said && strcmp(said, asked) != 0 && !(slash && !strcmp(slash + 1, asked)) ? said : NULL;
}

static cJSON *make_extra(const struct stream *s, const cJSON *request, bool ok)
{
    const cJSON *o = td_json_get(s->open, "open"), *group = td_json_get(o, "group"), *loop = td_json_get(o, "loop"),
                *role = td_json_get(o, "role"), *due = td_json_get(o, "due_ns"),
                *uncompressed = td_json_get(s->uncompressed, "uncompressed");
    const struct td_answer *a = &s->answer;
    cJSON *extra = cJSON_CreateObject();
    const char *model = other_model(s, request);

    if (a->fingerprint)
        cJSON_AddStringToObject(extra, "fingerprint", a->fingerprint);
    if (a->id)
        cJSON_AddStringToObject(extra, "response_id", a->id);
    if (model)
        cJSON_AddStringToObject(extra, "response_model", model);
    add_computed(extra, &a->computed);
    if (group)
        cJSON_AddItemToObject(extra, "group", cJSON_Duplicate(group, true));
    if (loop)
        cJSON_AddItemToObject(extra, "loop", cJSON_Duplicate(loop, true));
    if (role)
        cJSON_AddItemToObject(extra, "role", cJSON_Duplicate(role, true));
    if (due)
        cJSON_AddItemToObject(extra, "due_ns", cJSON_Duplicate(due, true));
    add_extra_i64(extra, "start_ns", due ? s->t_open : 0);
    add_extra_i64(extra, "connection", td_json_get_i64(o, "connection", 0));
    if (td_json_get_bool(o, "held", false))
        cJSON_AddBoolToObject(extra, "held", true);
    if (uncompressed)
        cJSON_AddItemToObject(extra, "uncompressed", cJSON_Duplicate(uncompressed, true));
    add_extra_i64(extra, "other_choices", a->other_choices);
    add_extra_i64(extra, "bad_events", a->bad_events);
    add_extra_i64(extra, "late_events", a->late_events);
    add_extra_i64(extra, "reasoning_bytes", a->reasoning_bytes);
    add_extra_i64(extra, "tool_calls", a->tool_calls);
    add_extra_i64(extra, "ids_missing", a->ids_missing < (int64_t)a->n_tokens ? a->ids_missing : 0);
    add_extra_i64(extra, "logprobs_missing",
                  a->logprobs_missing < (int64_t)a->n_tokens ? a->logprobs_missing : 0);
    add_extra_i64(extra, "excess_bytes", s->response.excess);
    if (a->bad_utf8)
        cJSON_AddBoolToObject(extra, "bad_utf8", true);
    if (ok && s->mode == BODY_SSE && !a->done)
        cJSON_AddBoolToObject(extra, "no_end_mark", true);
    if (!extra || extra->child)
        return extra;
    cJSON_Delete(extra);
    return NULL;
}

/* Take the prompt's ids from a request that was sent as token ids. */
static int read_request_prompt_ids(struct td_exchange *x)
{
    static const char *const names[] = {"prompt", "token_ids", "input_ids"}; /* OpenAI; vLLM's generate; SGLang's */
    const cJSON *p = NULL, *e;
    size_t i;
    int n;

    for (i = 0; i < sizeof names / sizeof *names && !p; i++)
        p = td_json_get(x->request, names[i]);
    n = cJSON_IsArray(p) ? cJSON_GetArraySize(p) : 0;

    if (x->n_prompt_ids || !n)
        return TD_OK;
    cJSON_ArrayForEach(e, p)
        if (!cJSON_IsNumber(e))
            return TD_OK;
    x->prompt_ids = malloc((size_t)n * sizeof *x->prompt_ids);
    if (!x->prompt_ids)
        return TD_ENOMEM;
    cJSON_ArrayForEach(e, p)
        x->prompt_ids[x->n_prompt_ids++] = (int32_t)td_json_i64(e, -1);
    return TD_OK;
}

static int build_exchange(struct td_deriver *d, struct stream *s, struct td_exchange *x)
{
    bool long_request;
    int rc;

    *x = (struct td_exchange){.stream = s->number};
    find_first_error(d, s);
    read_open_note(s, x);
    if (s->request_body.len && !s->request_body.failed)
        x->request = td_json_parse(td_buf_str(&s->request_body), s->request_body.len, NULL);
    x->http_status = s->response.status;
    x->t_sent_ns = s->t_sent;
    x->t_first_byte_ns = s->t_first;
    x->t_end_ns = s->t_last;
    x->extra = make_extra(s, x->request, !s->answer.error_kind);
    x->error = s->answer.error;
    x->error_kind = s->answer.error_kind;
    s->answer.error = s->answer.error_kind = NULL;
    rc = td_answer_finish(&s->answer, x);
    td_buf_release(&s->body); /* what follows needs memory of its own */
    if (x->error && x->usage.completion_tokens < 0)
        x->ids_complete = false; /* how many there were is unknown */
    if (!rc)
        rc = read_request_prompt_ids(x);
    if (!rc)
        rc = td_answer_finish_scores(&s->answer, x);
    long_request = s->request_body.len > TD_EXCHANGE_MAX_LINE / 8;
    return rc ? rc : td_exchange_limit_line(x, long_request);
}

static int finish_stream(struct td_deriver *d, struct stream *s, struct td_error *err)
{
    struct slot *slot = slot_of(d, s->number);
    struct stream **at = list_of(d, s->number);
    const uint32_t number = s->number;
    struct td_exchange x;
    int rc = build_exchange(d, s, &x);

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    slot->closed |= bit_of(number);
    d->n_open--;
    stream_free(s);
    if (rc)
        td_fail(err, rc, "out of memory while deriving stream %u", number);
    else
        rc = d->emit(d->arg, &x, err);
    td_exchange_release(&x);
    return rc;
}

/* ---- feeding ------------------------------------------------------------------------------------------------------ */

/* Read bytes that were sent. When a reused connection turns out to be dead, libcurl sends the
 * request again on a new one: the last request counts. */
static void feed_sent(struct stream *s, const struct td_wire *rec)
{
    if (s->request.state >= TD_HTTP_DONE && !s->t_first) {
        td_http_release(&s->request);
        td_http_init(&s->request, true, on_request_body, s);
        td_buf_clear(&s->request_body);
    }
    td_http_feed(&s->request, (const char *)rec->data, rec->len);
    s->t_sent = rec->t_ns;
}

static int feed_note(struct td_deriver *d, struct stream *s, const struct td_wire *rec, struct td_error *err)
{
    cJSON *note = td_json_parse((const char *)rec->data, rec->len, NULL);

    if (td_json_get(note, "open") && !s->open) {
        s->open = note;
        s->t_open = rec->t_ns;
    } else if (td_json_get(note, "close")) {
        s->close = note;
        return finish_stream(d, s, err);
    } else if (cJSON_IsString(td_json_get(note, "uncompressed")) && !s->uncompressed) {
        s->uncompressed = note;
    } else {
        cJSON_Delete(note); /* of a later version */
    }
    return TD_OK;
}

/* *out: NULL when the stream is closed. */
static int find_or_add_stream(struct td_deriver *d, uint32_t number, struct stream **out, struct td_error *err)
{
    struct stream *s, **list = list_of(d, number);
    struct slot *slot;

    *out = NULL;
    if (d->n_used * 2 >= d->n_slots && grow_slots(d))
        return td_fail(err, TD_ENOMEM, "out of memory for %zu streams", d->n_open);
    slot = slot_of(d, number);
    if (!slot->used) {
        *slot = (struct slot){.number = number / 64, .used = true};
        d->n_used++;
    }
    if (slot->closed & bit_of(number))
        return TD_OK;
    for (s = *list; s && s->number != number; s = s->next)
        ;
    if (!s) {
        if (d->n_open >= MAX_OPEN)
            return td_fail(err, TD_ELIMIT, "more than %d streams are open at once in the wire log", MAX_OPEN);
        s = stream_new(number);
        if (!s)
            return td_fail(err, TD_ENOMEM, "out of memory for stream %u", number);
        s->next = *list;
        *list = s;
        d->n_open++;
    }
    *out = s;
    return TD_OK;
}

int td_deriver_feed(struct td_deriver *d, const struct td_wire *rec, struct td_error *err)
{
    struct stream *s;
    int rc = find_or_add_stream(d, rec->stream, &s, err);

    if (rc)
        return rc;
    if (!s) {
        d->late++;
        return TD_OK;
    }
    s->t_now = rec->t_ns;
    if (rec->dir == TD_WIRE_NOTE) {
        if (!s->t_last || !s->t_first)
            s->t_last = rec->t_ns; /* nothing was read: the attempt ends here */
        return feed_note(d, s, rec, err);
    }
    s->t_last = rec->t_ns;
    if (rec->dir == TD_WIRE_SENT) {
        feed_sent(s, rec);
    } else if (rec->dir == TD_WIRE_RECEIVED) {
        if (!s->t_first)
            s->t_first = rec->t_ns;
        td_http_feed(&s->response, (const char *)rec->data, rec->len);
    }
    return TD_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct stream *x = *(struct stream *const *)a, *y = *(struct stream *const *)b;

    return x->number < y->number ? -1 : x->number > y->number;
}

int td_deriver_end(struct td_deriver *d, struct td_error *err)
{
    struct stream **open = malloc((d->n_open + 1) * sizeof *open);
    size_t i, n = 0;
    int rc = TD_OK;

    if (!open)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu streams", d->n_open);
    for (i = 0; i < LISTS; i++)
        for (struct stream *s = d->open[i]; s; s = s->next)
            open[n++] = s;
    qsort(open, n, sizeof *open, by_number);
    for (i = 0; i < n && !rc; i++)
        rc = finish_stream(d, open[i], err);
    free(open);
    return rc;
}
