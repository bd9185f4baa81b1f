/* messages.c - what of one answer came when.
 * SPDX-License-Identifier: Apache-2.0 */
#include "metrics/messages.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/json.h"
#include "wire/answer.h"
#include "wire/http.h"
#include "wire/sse.h"

struct td_messages_reader {
    struct td_messages got;
    struct td_http http;
    struct td_sse sse;
    struct td_buf body;         /* of an answer that is not streamed */
    struct td_answer answer;
    bool decided, no_memory;
    int64_t t_now;
};

/* Has a message without a token, which is JSON, choices nevertheless? */
static bool has_choices(const char *data, size_t n)
{
    cJSON *ev = td_json_parse(data, n, NULL);
    const bool has = cJSON_GetArraySize(td_json_get(ev, "choices")) > 0;

    cJSON_Delete(ev);
    return has;
}

static void add_message(struct td_messages_reader *r, const char *data, size_t n, bool streamed)
{
    const size_t tokens = r->answer.n_tokens, text = r->answer.text.len;
    const int64_t reasoning = r->answer.reasoning_bytes, tools = r->answer.tool_calls;
    struct td_message a = {.t_ns = r->t_now};
    size_t from;

    td_answer_read(&r->answer, data, n, r->t_now, streamed);
    if (r->answer.end_mark)
        return;
    /* the deriver puts reasoning in front of the text of a message */
    from = text + (size_t)(r->answer.reasoning_bytes - reasoning);
    a.tokens = (int32_t)(r->answer.n_tokens - tokens);
    a.holds |= r->answer.text.len > from ? TD_MESSAGE_TEXT : 0u;
    a.holds |= r->answer.reasoning_bytes > reasoning || r->answer.tool_calls > tools ? TD_MESSAGE_OTHER : 0u;
    if (r->answer.text.len > from)
        td_buf_add(&r->got.text, td_buf_str(&r->answer.text) + from, r->answer.text.len - from);
    a.holds |= a.tokens || a.holds || has_choices(data, n) ? TD_MESSAGE_CHOICE : 0u;
    if (td_array_grow(&r->got.v, r->got.n, &r->got.cap, sizeof a, TD_ANSWER_MAX_TOKENS))
        r->no_memory = true;
    else
        r->got.v[r->got.n++] = a;
}

static void on_event(void *arg, const struct td_sse_event *ev)
{
    struct td_messages_reader *r = arg;

    if (ev->len && !ev->error && !r->answer.end_mark)
        add_message(r, ev->data, ev->len, true);
}

static void on_body(void *arg, const char *bytes, size_t n)
{
    struct td_messages_reader *r = arg;

    if (!r->decided)
        r->got.streamed = r->http.status < 300 && (!strncasecmp(r->http.content_type, "text/event-stream", 17) ||
                                                   (n >= 5 && !memcmp(bytes, "data:", 5)));
    r->decided = true;
    if (r->got.streamed)
        td_sse_feed(&r->sse, bytes, n);
    else
        td_buf_add(&r->body, bytes, n);
}

struct td_messages_reader *td_messages_new(void)
{
    struct td_messages_reader *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    td_http_init(&r->http, false, on_body, r);
    td_sse_init(&r->sse, on_event, r);
    td_buf_init(&r->body, (size_t)TD_HTTP_MAX_WHOLE);
    td_buf_init(&r->got.text, TD_ANSWER_MAX_TEXT);
    td_answer_init(&r->answer);
    return r;
}

void td_messages_free(struct td_messages_reader *r)
{
    if (!r)
        return;
    td_http_release(&r->http);
    td_sse_release(&r->sse);
    td_buf_release(&r->body);
    td_buf_release(&r->got.text);
    td_answer_release(&r->answer);
    free(r->got.v);
    free(r);
}

bool td_messages_is_last(const struct td_wire *rec)
{
    cJSON *note = rec->dir == TD_WIRE_NOTE ? td_json_parse((const char *)rec->data, rec->len, NULL) : NULL;
    const bool last = td_json_get(note, "close") != NULL;

    cJSON_Delete(note);
    return last;
}

int td_messages_feed(struct td_messages_reader *r, const struct td_wire *rec)
{
    const bool last = td_messages_is_last(rec);

    if (!r->got.t_open_ns)
        r->got.t_open_ns = rec->t_ns;
    if (rec->dir == TD_WIRE_SENT && !r->got.t_written_ns)
        r->got.t_written_ns = rec->t_ns;
    if (rec->dir == TD_WIRE_RECEIVED) {
        r->t_now = rec->t_ns;
        td_http_feed(&r->http, (const char *)rec->data, rec->len);
    }
    if (last && r->body.len && !r->body.failed && r->http.status == 200)
        add_message(r, td_buf_str(&r->body), r->body.len, false);
    return r->no_memory ? TD_ENOMEM : last;
}

const struct td_messages *td_messages_get(const struct td_messages_reader *r)
{
    return &r->got;
}
