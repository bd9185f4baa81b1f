/* test_derive.c - exchanges out of wire records: every dialect, every kind of failure, bytes cut at every place.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The vLLM shapes were taken from its documentation of 0.26 and 0.32, the llama.cpp shapes from its server README. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>

#include "common/hidden.h"
#include "common/json.h"
#include "wire/derive.h"

struct got { struct td_exchange x[8]; size_t n; };

static int keep(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct got *g = arg;

    (void)err;
    assert_true(g->n < 8);
    g->x[g->n++] = *x;
    memset(x, 0, sizeof *x);
    return TD_OK;
}

static void release(struct got *g)
{
    while (g->n)
        td_exchange_release(&g->x[--g->n]);
}

static void feed(struct td_deriver *d, int64_t t, uint32_t stream, enum td_wire_dir dir, const char *s, size_t n)
{
    char *copy = malloc(n ? n : 1); /* exactly n bytes: a sanitizer sees a read past them */
    struct td_wire rec = {.t_ns = t, .stream = stream, .dir = dir, .data = (const uint8_t *)copy, .len = n};
    struct td_error err = {0};

    memcpy(copy, s, n);
    assert_int_equal(td_deriver_feed(d, &rec, &err), TD_OK);
    free(copy);
}

static void feed_s(struct td_deriver *d, int64_t t, uint32_t stream, enum td_wire_dir dir, const char *s)
{
    feed(d, t, stream, dir, s, strlen(s));
}

#define OPEN "{\"open\":{\"prompt_id\":\"p1\",\"category\":\"short\",\"repeat\":2,\"concurrency\":3,\"phase\":\"tapped\"," \
             "\"api\":\"vllm\",\"method\":\"POST\",\"path\":\"/v1/completions\",\"group\":4}}"
#define REQUEST "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"prompt\":\"Hi\"}"
#define CLOSE "{\"close\":{\"ok\":true}}"
#define SSE_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
#define JSON_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

/* One stream whose response comes in pieces of `piece` bytes, 10 ns apart from t = 1000. */
static struct got one(const char *response, size_t n, size_t piece, const char *close)
{
    struct got g = {.n = 0};
    struct td_deriver *d = td_deriver_new(keep, &g);
    struct td_error err = {0};
    size_t i;
    int64_t t = 1000;

    feed_s(d, 100, 7, TD_WIRE_NOTE, OPEN);
    feed_s(d, 200, 7, TD_WIRE_SENT, REQUEST);
    for (i = 0; i < n; i += piece, t += 10)
        feed(d, t, 7, TD_WIRE_RECEIVED, response + i, n - i < piece ? n - i : piece);
    if (close)
        feed_s(d, t, 7, TD_WIRE_NOTE, close);
    assert_int_equal(g.n, close ? 1 : 0);
    assert_int_equal(td_deriver_end(d, &err), TD_OK);
    assert_int_equal(g.n, 1);
    td_deriver_free(d);
    return g;
}

static void check_common(const struct td_exchange *x)
{
    assert_int_equal(x->stream, 7);
    assert_string_equal(x->prompt_id, "p1");
    assert_string_equal(x->category, "short");
    assert_int_equal(x->repeat, 2);
    assert_int_equal(x->concurrency, 3);
    assert_int_equal(x->phase, TD_PHASE_TAPPED);
    assert_string_equal(x->path, "/v1/completions");
    assert_string_equal(td_json_get_str(x->request, "prompt", ""), "Hi");
    assert_int_equal(x->t_sent_ns, 200);
    assert_int_equal(td_json_get_i64(x->extra, "group", -1), 4);
}

static const char VLLM[] = SSE_HEAD
    "data: {\"id\":\"cmpl-X\",\"choices\":[{\"index\":0,\"text\":\" Paris\",\"logprobs\":{\"text_offset\":[0],\"token_logprobs\":[-0.5],"
    "\"tokens\":[\"token_id:12366\"],\"top_logprobs\":[{\"token_id:12366\":-0.5,\"token_id:9\":-2.5,\"token_id:8\":-1.5}]},"
    "\"finish_reason\":null,\"prompt_token_ids\":[1,2],\"token_ids\":[12366]}]}\n\n"
    ": ping\n\n"
    "data: {\"id\":\"cmpl-X\",\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":{\"token_logprobs\":[NaN,null],\"tokens\":[\"token_id:0\","
    "\"token_id:1\"],\"top_logprobs\":[{\"token_id:0\":NaN,\"token_id:5\":-9999.0},null]},\"finish_reason\":\"length\",\"token_ids\":[0,1]}]}\n\n"
    "data: {\"id\":\"cmpl-X\",\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"total_tokens\":5,\"completion_tokens\":3},"
    "\"system_fingerprint\":\"vllm-0.32\"}\n\n"
    "data: [DONE]\n\n";

static void vllm_stream_cut_anywhere(void **state)
{
    size_t piece;

    (void)state;
    for (piece = 1; piece < sizeof VLLM; piece += piece < 40 ? 1 : 37) {
        struct got g = one(VLLM, sizeof VLLM - 1, piece, CLOSE);
        const struct td_exchange *x = &g.x[0];

        check_common(x);
        assert_null(x->error);
        assert_int_equal(x->http_status, 200);
        assert_int_equal(x->n_tokens, 3);
        assert_int_equal(x->token_ids[0], 12366);
        assert_int_equal(x->token_ids[2], 1);
        assert_true(x->ids_complete);
        assert_float_equal(x->logprobs[0], -0.5, 0);
        assert_true(isnan(x->logprobs[1]) && isnan(x->logprobs[2]));
        assert_int_equal(x->top_k, 3);
        assert_int_equal(x->top[1].id, 8); /* sorted: the second best of the first token */
        assert_int_equal(x->top[3].id, 5); /* NaN stands last */
        assert_true(isnan(x->top[4].logprob));
        assert_int_equal(x->top[6].id, -1);
        assert_null(x->token_text);
        assert_string_equal(x->text, " Paris");
        assert_string_equal(x->finish_reason, "length");
        assert_int_equal(x->usage.prompt_tokens, 2);
        assert_int_equal(x->n_prompt_ids, 2);
        assert_string_equal(td_json_get_str(x->extra, "fingerprint", ""), "vllm-0.32");
        assert_int_equal(x->n_events, 2);
        assert_int_equal(x->events[1].n_tokens, 2);
        /* the time of an event is that of the read in which its blank line ended */
        assert_int_equal(x->events[0].t_ns, 1000 + (int64_t)(((size_t)(strstr(VLLM, "}]}\n\n") - VLLM) + 4) / piece) * 10);
        assert_int_equal(x->t_first_byte_ns, 1000);
        release(&g);
    }
}

/* An event that is named an error is one, whatever its data; an answer of status 206 is a part of one. */
static void errors_by_name(void **state)
{
    static const struct { const char *in, *kind, *says; } CASE[] = {
        {SSE_HEAD "data: {\"choices\":[{\"text\":\"a\"}]}\n\nevent: error\ndata: {\"message\":\"dead\"}\n\ndata: [DONE]\n\n", "stream", "dead"},
        {SSE_HEAD "data: {\"choices\":[{\"text\":\"a\"}]}\n\nevent: error\ndata: dead\n\ndata: [DONE]\n\n", "stream", "dead"},
        {SSE_HEAD "data: {\"choices\":[{\"text\":\"a\"}]}\n\nevent: error\n\ndata: [DONE]\n\n", "stream", "inside the stream"},
        {SSE_HEAD "event: error\ndata: [DONE]\n\n", "stream", "[DONE]"},
        {"HTTP/1.1 206 Partial Content\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n"
         "data: [DONE]\n\n", "http", "206"},
        {"HTTP/1.1 206 X\r\nContent-Type: application/json\r\n\r\n{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}", "http", "206"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct got g = one(CASE[i].in, strlen(CASE[i].in), 9, CLOSE);

        assert_non_null(g.x[0].error);
        assert_string_equal(g.x[0].error_kind, CASE[i].kind);
        assert_non_null(strstr(g.x[0].error, CASE[i].says));
        release(&g);
    }
}

static void times_and_gaps(void **state)
{
    struct got g = {.n = 0};
    struct td_deriver *d = td_deriver_new(keep, &g);
    double gaps[8];

    (void)state;
    feed_s(d, 1, 0, TD_WIRE_NOTE, OPEN);
    feed_s(d, 100, 0, TD_WIRE_SENT, REQUEST);
    feed_s(d, 150, 0, TD_WIRE_RECEIVED, SSE_HEAD);
    feed_s(d, 200, 0, TD_WIRE_RECEIVED, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n");
    feed_s(d, 300, 0, TD_WIRE_RECEIVED, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"token_ids\":[5]}]}\n\n");
    feed_s(d, 500, 0, TD_WIRE_RECEIVED, "data: {\"choices\":[{\"delta\":{\"content\":\"bc\"},\"token_ids\":[6,7],\"finish_reason\":"
                                        "\"stop\"}]}\n\ndata: [DONE]\n\n");
    feed_s(d, 600, 0, TD_WIRE_NOTE, CLOSE);
    assert_null(g.x[0].error);
    assert_int_equal(td_exchange_ttft_ns(&g.x[0]), 200);
    assert_int_equal(td_exchange_e2e_ns(&g.x[0]), 400);
    assert_int_equal(td_exchange_gaps(&g.x[0], gaps, 8), 2);
    assert_float_equal(gaps[0], 100, 0);
    assert_float_equal(gaps[1], 100, 0);
    release(&g);
    td_deriver_free(d);
}

static void chat_with_logprobs(void **state)
{
    static const char in[] = SSE_HEAD
        "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
        "\"finish_reason\":null}],\"prompt_token_ids\":[3,4,5]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"logprobs\":{\"content\":[{\"token\":\"Hel\",\"logprob\":-0.25,"
        "\"bytes\":[72],\"top_logprobs\":[{\"token\":\"Hel\",\"logprob\":-0.25},{\"token\":\"Yo\",\"logprob\":-3}]}]}}]}\n\n"
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"logprobs\":{\"content\":[{\"token\":\"lo\",\"logprob\":-1,"
        "\"top_logprobs\":[]}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    struct got g = one(in, sizeof in - 1, 50, CLOSE);
    const struct td_exchange *x = &g.x[0];

    (void)state;
    assert_null(x->error);
    assert_string_equal(x->text, "Hello");
    assert_int_equal(x->n_tokens, 2);
    assert_null(x->token_ids);
    assert_false(x->ids_complete);
    assert_string_equal(x->token_text[1], "lo");
    assert_float_equal(x->logprobs[1], -1, 0);
    assert_int_equal(x->top_k, 2);
    assert_int_equal(x->n_prompt_ids, 3);
    assert_int_equal(td_json_get_i64(x->extra, "other_choices", 0), 1);
    release(&g);
}

static void llamacpp_stream(void **state)
{
    static const char in[] = SSE_HEAD
        "data: {\"index\":0,\"content\":\" a\",\"tokens\":[253],\"stop\":false,\"completion_probabilities\":[{\"id\":253,\"token\":\" a\","
        "\"bytes\":[32,97],\"logprob\":-0.125,\"top_logprobs\":[{\"id\":253,\"token\":\" a\",\"logprob\":-0.125},{\"id\":7,\"token\":\"b\","
        "\"logprob\":-4}]}]}\n\n"
        "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":2,\"tokens_evaluated\":5,"
        "\"generation_settings\":{},\"timings\":{}}\n\n";
    struct got g = one(in, sizeof in - 1, 100, CLOSE);
    const struct td_exchange *x = &g.x[0];

    (void)state;
    assert_null(x->error);
    assert_int_equal(x->n_tokens, 2);
    assert_int_equal(x->token_ids[0], 253);
    assert_int_equal(x->token_ids[1], -1); /* counted by the server, never shown */
    assert_true(isinf(x->logprobs[1]));
    assert_false(x->ids_complete);
    assert_int_equal(x->top[1].id, 7);
    assert_string_equal(x->finish_reason, "length");
    assert_int_equal(x->usage.prompt_tokens, 5);
    release(&g);
}

/* As llama.cpp sent it (b11434): an emoji of three tokens is one event with its last id; the last token ends within a glyph. */
static void llamacpp_glyphs(void **state)
{
    static const char in[] = SSE_HEAD
        "data: {\"index\":0,\"content\":\"\xF0\x9F\xA7\xAC\",\"tokens\":[122],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":3,\"tokens_evaluated\":37,"
        "\"completion_probabilities\":[{\"id\":122,\"token\":\"\xF0\x9F\xA7\xAC\",\"bytes\":[240,159,167,172],\"logprob\":-0.5,\"top_logprobs\":["
        "{\"id\":122,\"token\":\"\xEF\xBF\xBD\",\"bytes\":[172],\"logprob\":-0.5},{\"id\":234,\"token\":\"\xEF\xBF\xBD\",\"bytes\":[144],\"logprob\":-3.25}]}]}\n\n"
        "data: {\"index\":0,\"content\":\" a\",\"tokens\":[253],\"stop\":false,\"tokens_predicted\":4,\"tokens_evaluated\":37}\n\n"
        "data: {\"index\":0,\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":5,\"tokens_evaluated\":37}\n\n";
    static const int32_t ids[] = {-1, -1, 122, 253, -1};
    struct got g = one(in, sizeof in - 1, 90, CLOSE);
    const struct td_exchange *x = &g.x[0];

    (void)state;
    assert_null(x->error);
    assert_int_equal(x->n_tokens, 5);
    assert_memory_equal(x->token_ids, ids, sizeof ids);
    assert_false(x->ids_complete);
    assert_true(x->logprobs[0] == -INFINITY && x->logprobs[2] == -0.5F && x->logprobs[3] == -INFINITY);
    assert_int_equal(x->n_events, 3);
    assert_int_equal(x->events[0].n_tokens, 3); /* so that its gap is spread over three */
    assert_int_equal(x->events[1].n_tokens, 1);
    assert_int_equal(x->usage.completion_tokens, 5);
    release(&g);
}

/* llama.cpp's /v1/completions, as its server writes it (tools/server/server-task.cpp, to_json_oaicompat of a part and of the end): the
 * text of a completion, the logprobs of a chat, ids among them. The last event counts one more token than was shown: part of a glyph. */
static void llamacpp_completions(void **state)
{
    static const char in[] = SSE_HEAD
        "data: {\"choices\":[{\"text\":\" Paris\",\"index\":0,\"logprobs\":{\"content\":[{\"id\":12366,\"token\":\" Paris\",\"bytes\":[32,80],\"logprob\":-0.5,"
        "\"top_logprobs\":[{\"id\":12366,\"token\":\" Paris\",\"bytes\":[32,80],\"logprob\":-0.5},{\"id\":7,\"token\":\" the\",\"bytes\":[32],\"logprob\":-1.5}]}]},"
        "\"finish_reason\":null}],\"created\":1,\"model\":\"m\",\"system_fingerprint\":\"b1-fake\",\"object\":\"text_completion\",\"id\":\"chatcmpl-X\"}\n\n"
        "data: {\"choices\":[{\"text\":\".\",\"index\":0,\"logprobs\":{\"content\":[{\"id\":13,\"token\":\".\",\"bytes\":[46],\"logprob\":-0.25,"
        "\"top_logprobs\":[{\"id\":13,\"token\":\".\",\"bytes\":[46],\"logprob\":-0.25},{\"id\":0,\"token\":\"!\",\"bytes\":[33],\"logprob\":-2}]}]},"
        "\"finish_reason\":null}],\"object\":\"text_completion\",\"id\":\"chatcmpl-X\"}\n\n"
        "data: {\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"length\"}],\"object\":\"text_completion\","
        "\"usage\":{\"completion_tokens\":3,\"prompt_tokens\":5,\"total_tokens\":8},\"id\":\"chatcmpl-X\",\"timings\":{\"cache_n\":2,\"prompt_n\":3,\"predicted_n\":3}}\n\n"
        "data: [DONE]\n\n";
    static const int32_t ids[] = {12366, 13, -1};
    struct got g = one(in, sizeof in - 1, 70, CLOSE);
    const struct td_exchange *x = &g.x[0];
    const cJSON *computed;

    (void)state;
    assert_null(x->error);
    assert_string_equal(x->text, " Paris.");
    assert_int_equal(x->n_tokens, 3);
    assert_non_null(x->token_ids);
    assert_memory_equal(x->token_ids, ids, sizeof ids);
    assert_false(x->ids_complete);
    assert_true(x->logprobs[0] == -0.5F && x->logprobs[1] == -0.25F && x->logprobs[2] == -INFINITY);
    assert_int_equal(x->top_k, 2);
    assert_int_equal(x->top[1].id, 7);
    assert_float_equal(x->top[3].logprob, -2, 0);
    assert_string_equal(x->finish_reason, "length");
    assert_int_equal(x->usage.prompt_tokens, 5);
    assert_string_equal(td_json_get_str(x->extra, "fingerprint", ""), "b1-fake");
    computed = td_json_get(x->extra, "computed");
    assert_int_equal(td_json_get_i64(computed, "prompt", -1), 3);
    assert_int_equal(td_json_get_i64(computed, "cached", -1), 2);
    assert_int_equal(td_json_get_i64(computed, "answer", -1), 3);
    release(&g);
}

/* A count that jumps by more than a glyph can hold is no place for hidden tokens. */
static void llamacpp_wild_count(void **state)
{
    static const char in[] = SSE_HEAD "data: {\"content\":\"a\",\"tokens\":[1],\"stop\":false,\"tokens_predicted\":4000000}\n\n"
        "data: {\"content\":\"\",\"tokens\":[],\"stop\":true,\"stop_type\":\"limit\",\"tokens_predicted\":4000000}\n\n";
    struct got g = one(in, sizeof in - 1, 90, CLOSE);

    (void)state;
    assert_int_equal(g.x[0].n_tokens, 1);
    assert_false(g.x[0].ids_complete);
    release(&g);
}

/* As vLLM 0.32 sent it, shortened: /inference/v1/generate, tokens in, tokens out. */
static void vllm_generate(void **state)
{
    static const char in[] = SSE_HEAD
        "data: {\"request_id\":\"generate-tokens-td-ab-5\",\"usage\":null,\"prompt_token_ids\":[504,3575,282],\"output_mode\":\"tokens\",\"choices\":[{\"index\":0,"
        "\"finish_reason\":null,\"stop_reason\":null,\"token_ids\":[260],\"routed_experts\":null,\"logprobs\":{\"content\":[{\"token_id\":260,\"logprob\":-2.125,"
        "\"rank\":1,\"top_logprobs\":[{\"token_id\":260,\"logprob\":-2.125,\"rank\":1},{\"token_id\":4649,\"logprob\":-2.5,\"rank\":2}]}]}}]}\n\n"
        "data: {\"request_id\":\"generate-tokens-td-ab-5\",\"usage\":null,\"output_mode\":\"tokens\",\"choices\":[{\"index\":0,\"finish_reason\":\"length\","
        "\"token_ids\":[1797],\"logprobs\":{\"content\":[{\"token_id\":1797,\"logprob\":-9999.0,\"top_logprobs\":[]}]}}]}\n\n"
        "data: {\"request_id\":\"generate-tokens-td-ab-5\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2},\"output_mode\":\"tokens\",\"choices\":[]}\n\n"
        "data: [DONE]\n\n";
    struct got g = one(in, sizeof in - 1, 70, CLOSE);
    const struct td_exchange *x = &g.x[0];

    (void)state;
    assert_null(x->error);
    assert_int_equal(x->n_tokens, 2);
    assert_true(x->ids_complete);
    assert_int_equal(x->token_ids[1], 1797);
    assert_int_equal(x->n_prompt_ids, 3);
    assert_int_equal(x->top[1].id, 4649);
    assert_float_equal(x->logprobs[0], -2.125, 0);
    assert_true(isnan(x->logprobs[1])); /* what its JSON makes of NaN */
    assert_string_equal(x->finish_reason, "length");
    assert_string_equal(td_json_get_str(x->extra, "response_id", ""), "generate-tokens-td-ab-5");
    release(&g);
}

#define SG_TEXT(text, ids, lps, top, n, reason)                                                                                  \
    "data: {\"text\":\"" text "\",\"output_ids\":[" ids "],\"meta_info\":{\"id\":\"r1\",\"finish_reason\":" reason                       \
    ",\"prompt_tokens\":6,\"completion_tokens\":" n ",\"cached_tokens\":0,\"output_token_logprobs\":[" lps                       \
    "],\"output_top_logprobs\":[" top "]}}\n\n"
#define SG_END "data: [DONE]\n\n"

static void check_sglang(const char *in, size_t n)
{
    struct got g = one(in, n, 90, CLOSE);
    const struct td_exchange *x = &g.x[0];

    assert_null(x->error);
    assert_string_equal(x->text, " a b c");
    assert_int_equal(x->n_tokens, 3);
    assert_int_equal(x->token_ids[0], 11);
    assert_int_equal(x->token_ids[2], 13);
    assert_true(x->ids_complete);
    assert_float_equal(x->logprobs[2], -0.75, 0);
    assert_int_equal(x->top_k, 2);
    assert_int_equal(x->top[2 * 2 + 1].id, 9);
    assert_int_equal(x->n_events, 2);
    assert_int_equal(x->events[1].n_tokens, 2);
    assert_int_equal(x->usage.prompt_tokens, 6);
    assert_string_equal(x->finish_reason, "length");
    assert_string_equal(td_json_get_str(x->extra, "response_id", ""), "r1");
    release(&g);
}

/* SGLang's documented form: text and arrays repeat what came before; other versions send only what is new in some of them. */
static void sglang_streams(void **state)
{
#define T1 "[[-0.25,11,null],[-1,9,null]]"
#define T2 "[[-0.5,12,null],[-2,9,null]]"
#define T3 "[[-0.75,13,null],[-3,9,null]]"
    static const char cumulative[] = SSE_HEAD SG_TEXT(" a", "11", "[-0.25,11,null]", T1, "1", "null")
        SG_TEXT(" a b c", "11,12,13", "[-0.25,11,null],[-0.5,12,null],[-0.75,13,null]", T1 "," T2 "," T3, "3", "null")
        SG_TEXT(" a b c", "11,12,13", "[-0.25,11,null],[-0.5,12,null],[-0.75,13,null]", T1 "," T2 "," T3, "3",
                "{\"type\":\"length\",\"length\":3}") SG_END;
    static const char new_ids[] = SSE_HEAD SG_TEXT(" a", "11", "[-0.25,11,null]", T1, "1", "null")
        SG_TEXT(" a b c", "12,13", "[-0.25,11,null],[-0.5,12,null],[-0.75,13,null]", T1 "," T2 "," T3, "3",
                "{\"type\":\"length\",\"length\":3}") SG_END;
    static const char stream_output[] = SSE_HEAD SG_TEXT(" a", "11", "[-0.25,11,null]", T1, "1", "null")
        SG_TEXT(" b c", "12,13", "[-0.5,12,null],[-0.75,13,null]", T2 "," T3, "3", "{\"type\":\"length\",\"length\":3}") SG_END;

    (void)state;
    check_sglang(cumulative, sizeof cumulative - 1);
    check_sglang(new_ids, sizeof new_ids - 1);
    check_sglang(stream_output, sizeof stream_output - 1);
}

/* Without output_ids (older versions) the ids come from the logprobs; an abort is an error; a body in one piece. */
static void sglang_other_forms(void **state)
{
    static const char whole[] = JSON_HEAD "{\"text\":\" a b\",\"meta_info\":{\"id\":\"r2\",\"finish_reason\":{\"type\":\"stop\",\"matched\":2},"
        "\"prompt_tokens\":6,\"completion_tokens\":2,\"output_token_logprobs\":[[-0.25,11,\" a\"],[-0.5,12,\" b\"]]}}";
    static const char aborted[] = SSE_HEAD "data: {\"text\":\" a\",\"meta_info\":{\"id\":\"r3\",\"completion_tokens\":1,"
        "\"finish_reason\":{\"type\":\"abort\",\"message\":\"out of memory\"}}}\n\ndata: [DONE]\n\n";
    struct got g = one(whole, sizeof whole - 1, 400, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_int_equal(g.x[0].token_ids[1], 12);
    assert_true(g.x[0].ids_complete);
    assert_string_equal(g.x[0].token_text[1], " b");
    assert_string_equal(g.x[0].finish_reason, "stop");
    release(&g);
    g = one(aborted, sizeof aborted - 1, 60, CLOSE);
    assert_string_equal(g.x[0].error_kind, "stream");
    assert_non_null(strstr(g.x[0].error, "out of memory"));
    release(&g);
}

static void whole_bodies(void **state)
{
    static const char vllm[] = JSON_HEAD "{\"id\":\"c\",\"choices\":[{\"index\":0,\"text\":\"a\\u0000b\",\"token_ids\":[1,2],\"logprobs\":null,"
                               "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";
    static const char llama[] = JSON_HEAD "{\"content\":\"x\",\"tokens\":[4,5],\"stop\":true,\"stop_type\":\"eos\",\"tokens_predicted\":2}";
    static const char chat[] = JSON_HEAD "{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}";
    struct got g = one(vllm, sizeof vllm - 1, 30, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_int_equal(g.x[0].text_len, 3);
    assert_memory_equal(g.x[0].text, "a\0b", 3);
    assert_true(g.x[0].ids_complete);
    assert_int_equal(g.x[0].n_events, 1);
    assert_int_equal(g.x[0].events[0].t_ns, g.x[0].t_end_ns);
    release(&g);
    g = one(llama, sizeof llama - 1, 1000, CLOSE);
    assert_null(g.x[0].error);
    assert_string_equal(g.x[0].finish_reason, "stop");
    assert_int_equal(g.x[0].n_tokens, 2);
    release(&g);
    g = one(chat, sizeof chat - 1, 1000, CLOSE);
    assert_null(g.x[0].error);
    assert_string_equal(g.x[0].text, "hi");
    release(&g);
}

struct failure { const char *response; size_t n; const char *close, *kind, *words; int32_t n_tokens; };
#define BAD(r, close, kind, words, n) {r, sizeof r - 1, close, kind, words, n}
#define TOKEN "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[5]}]}\n\n"
#define HTTP(code, body) "HTTP/1.1 " code " X\r\nContent-Type: application/json\r\n\r\n" body

static void failures_have_a_kind_and_a_sentence(void **state)
{
    static const struct failure f[] = {
        BAD(HTTP("400", "{\"error\":{\"message\":\"bad K\",\"type\":\"BadRequestError\",\"code\":400}}"), CLOSE, "http", "HTTP 400: bad K", 0),
        BAD(HTTP("404", "{\"detail\":\"Not Found\"}"), CLOSE, "http", "HTTP 404: Not Found", 0),
        BAD(HTTP("422", "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"field required\"}]}"), CLOSE, "http", "field required", 0),
        BAD(HTTP("400", "{\"object\":\"error\",\"message\":\"flat\",\"code\":400}"), CLOSE, "http", "HTTP 400: flat", 0),
        BAD(HTTP("503", "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}"), CLOSE, "http",
            "HTTP 503: Loading model", 0),
        BAD(HTTP("500", "<html>oops\x01</html>"), CLOSE, "http", "HTTP 500: <html>oops </html>", 0),
        BAD(HTTP("502", ""), CLOSE, "http", "HTTP 502: no body", 0),
        BAD("HTTP/1.1 302 X\r\nLocation: http://y/\r\nContent-Length: 0\r\n\r\n", CLOSE, "http", "http://y/", 0),
        BAD(SSE_HEAD TOKEN "data: {\"error\":{\"message\":\"engine died\"}}\n\ndata: [DONE]\n\n", CLOSE, "stream", "engine died", 1),
        BAD(SSE_HEAD TOKEN "error: {\"code\":500,\"message\":\"slot\",\"type\":\"x\"}\n\n", CLOSE, "stream", "slot", 1),
        BAD(SSE_HEAD TOKEN "data: {\"choi\n\ndata: [DONE]\n\n", CLOSE, "parse", "after 1 tokens is no JSON", 1),
        BAD(SSE_HEAD TOKEN "data: 7\n\ndata: [DONE]\n\n", CLOSE, "parse", "no object", 1),
        BAD(SSE_HEAD "data: hello\0world\n\n", CLOSE, "parse", "no JSON", 0),
        BAD(SSE_HEAD, CLOSE, "parse", "without one event", 0),
        BAD(SSE_HEAD TOKEN, CLOSE, "cut", "after 1 tokens without an end mark", 1),
        BAD(SSE_HEAD TOKEN "data: {\"choi", "{\"close\":{\"ok\":false,\"kind\":\"cut\",\"error\":\"recv failed\"}}", "cut", "recv failed", 1),
        BAD(SSE_HEAD TOKEN, NULL, "cut", "recording ends", 1),
        BAD(SSE_HEAD TOKEN, "{\"close\":{\"ok\":false,\"kind\":\"timeout\",\"error\":\"no byte for 3 s\"}}", "timeout", "no byte", 1),
        BAD("", "{\"close\":{\"ok\":false,\"kind\":\"connect\",\"error\":\"refused\"}}", "connect", "refused", 0),
        BAD("", "{\"close\":{\"ok\":false,\"kind\":\"server\",\"error\":\"gone\"}}", "server", "gone", 0),
        BAD("", CLOSE, "cut", "without an answer", 0),
        BAD(JSON_HEAD "\x00\xff garbage", CLOSE, "parse", "no JSON", 0),
        BAD(JSON_HEAD "{\"hello\":1}", CLOSE, "parse", "neither choices nor content", 0),
        BAD(JSON_HEAD "", CLOSE, "parse", "empty", 0),
        BAD("\x16\x03\x01 binary\n", CLOSE, "parse", "no HTTP", 0),
        BAD("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\nxyz\r\n", CLOSE, "parse", "chunk", 0),
        BAD(HTTP("200", "{\"error\":\"went wrong\"}"), CLOSE, "stream", "went wrong", 0),
        BAD("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n", CLOSE, "parse", "chunk", 0),
        BAD("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", CLOSE, "parse", "there twice", 0),
        BAD("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", CLOSE, "parse", "Content-Length is no number", 0),
        BAD("HTTP/1.1 200 OK\r\nContent-Length: 5;q=1\r\n\r\nhello", CLOSE, "parse", "Content-Length is no number", 0),
        BAD("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", CLOSE, "parse", "not asked for", 0),
        BAD("HTTP/1.1 101 X\r\nUpgrade: h2c\r\n\r\n", CLOSE, "http", "HTTP 101: the server changes", 0),
        BAD("HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "http", "HTTP 204: no body", 0),
        BAD("HTTP/1.1 304 X\r\n\r\n", CLOSE, "http", "HTTP 304: no body", 0),
        BAD(SSE_HEAD "data: [DONE]\n\n", CLOSE, "parse", "without one event", 0),
        BAD(SSE_HEAD "data: {\"choices\":[{\"index\":1,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n", CLOSE, "parse", "no choice 0", 0),
        BAD(SSE_HEAD "data: {\"choices\":[null,7]}\n\ndata: [DONE]\n\n", CLOSE, "parse", "no choice 0", 0),
        BAD(SSE_HEAD "data: {\"choices\":[{\"text\":\"a\"},{\"text\":\"b\"}]}\n\ndata: [DONE]\n\n", CLOSE, "parse", "choice 0 twice", 1),
    };
    size_t i, piece;

    (void)state;
    for (i = 0; i < sizeof f / sizeof *f; i++) {
        for (piece = 1; piece <= 64; piece += 21) {
            struct got g = one(f[i].response, f[i].n, piece, f[i].close);
            const struct td_exchange *x = &g.x[0];

            check_common(x);
            assert_non_null(x->error);
            if (strcmp(x->error_kind, f[i].kind) || !strstr(x->error, f[i].words))
                fail_msg("case %zu: got %s: %s; expected %s: %s", i, x->error_kind, x->error, f[i].kind, f[i].words);
            assert_int_equal(x->n_tokens, f[i].n_tokens);
            release(&g);
        }
    }
}

static void finished_without_done_is_complete(void **state)
{
    static const char in[] = SSE_HEAD "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n";
    struct got g = one(in, sizeof in - 1, 11, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_true(td_json_get_bool(g.x[0].extra, "no_end_mark", false));
    assert_int_equal(g.x[0].n_tokens, 1);
    release(&g);
}

static void what_follows_the_end_is_counted_only(void **state)
{
    struct got g = one(SSE_HEAD TOKEN "data: [DONE]\n\n" TOKEN TOKEN, sizeof(SSE_HEAD TOKEN "data: [DONE]\n\n" TOKEN TOKEN) - 1, 9, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_int_equal(g.x[0].n_tokens, 1);
    assert_int_equal(td_json_get_i64(g.x[0].extra, "late_events", 0), 2);
    release(&g);
}

static void counts_that_cannot_be_are_not_reported(void **state)
{
    static const char *const counts[] = {"-7", "-9.25e18", "1e308", "99999999999999999999999", "4611686018427387904", "\"x\"", "[3]"};
    char response[400];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct got g;

        snprintf(response, sizeof response, JSON_HEAD "{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":%s}}", counts[i]);
        g = one(response, strlen(response), 50, CLOSE);
        assert_null(g.x[0].error);
        assert_int_equal(g.x[0].usage.completion_tokens, -1);
        release(&g);
    }
}

/* One answer of this body, between its parts as often as asked. */
static struct got one_filled(const char *before, const char *fill, size_t times, const char *after)
{
    const size_t unit = strlen(fill), n = strlen(before), m = strlen(after);
    char *response = malloc(n + times * unit + m + 1);
    struct got g;
    size_t i;

    assert_non_null(response);
    memcpy(response, before, n);
    for (i = 0; i < times; i++)
        memcpy(response + n + i * unit, fill, unit);
    strcpy(response + n + times * unit, after);
    g = one(response, n + times * unit + m, 1 << 20, CLOSE);
    free(response);
    return g;
}

static void answers_that_are_too_large_are_refused_by_name(void **state)
{
    struct got g;

    (void)state;
    g = one_filled(JSON_HEAD "{\"choices\":[{\"text\":\"a\",\"token_ids\":[1", ",1", 3 << 20, "]}]}");
    assert_string_equal(g.x[0].error_kind, "parse");
    assert_non_null(strstr(g.x[0].error, "more than 2097152 JSON values"));
    release(&g);
    g = one_filled(JSON_HEAD "{\"choices\":[{\"text\":\"", ",,,,", 1 << 20, "\"}]}"); /* no values, though commas */
    assert_null(g.x[0].error);
    assert_int_equal(g.x[0].text_len, 4 << 20);
    release(&g);
    g = one_filled(JSON_HEAD "{\"choices\":[{\"text\":\"", "xxxxxxxxxxxxxxxx", 4 << 20, "\"}]}");
    assert_non_null(strstr(g.x[0].error, "longer than 64 MiB and not streamed"));
    release(&g);
    g = one_filled(JSON_HEAD "{\"choices\":[{\"text\":\"", "\x01\x02\x03\x04", 23 << 18, "\"}]}"); /* six bytes each in our line */
    assert_string_equal(g.x[0].error_kind, "parse");
    assert_non_null(strstr(g.x[0].error, "more than 128 MiB as JSON"));
    assert_true(td_json_get_bool(g.x[0].extra, "answer_dropped", false));
    assert_int_equal(g.x[0].text_len, 0);
    release(&g);
}

static void bad_utf8_is_kept_and_noted(void **state)
{
    static const char in[] = SSE_HEAD "data: {\"choices\":[{\"text\":\"a\xff" "b\",\"token_ids\":[1],\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    struct got g = one(in, sizeof in - 1, 11, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_string_equal(g.x[0].text, "a\xEF\xBF\xBD" "b");
    assert_true(td_json_get_bool(g.x[0].extra, "bad_utf8", false));
    release(&g);
}

static void missing_logprobs_are_not_nan(void **state)
{
    static const char in[] = SSE_HEAD "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\n"
        "data: {\"choices\":[{\"text\":\"b\",\"token_ids\":[2],\"logprobs\":{\"tokens\":[\"b\"],\"token_logprobs\":[-1]}}]}\n\ndata: [DONE]\n\n";
    struct got g = one(in, sizeof in - 1, 500, CLOSE);

    (void)state;
    assert_null(g.x[0].error);
    assert_true(g.x[0].logprobs[0] == -INFINITY); /* not said */
    assert_float_equal(g.x[0].logprobs[1], -1, 0);
    assert_int_equal(td_json_get_i64(g.x[0].extra, "logprobs_missing", 0), 1);
    release(&g);
}

static void streams_interleave_and_retries_count_once(void **state)
{
    struct got g = {.n = 0};
    struct td_deriver *d = td_deriver_new(keep, &g);
    struct td_error err = {0};

    (void)state;
    feed_s(d, 1, 1, TD_WIRE_NOTE, OPEN);
    feed_s(d, 1, 2, TD_WIRE_NOTE, OPEN);
    feed_s(d, 2, 1, TD_WIRE_SENT, REQUEST);
    feed_s(d, 2, 2, TD_WIRE_SENT, REQUEST);
    feed_s(d, 3, 2, TD_WIRE_SENT, REQUEST); /* the kept connection was dead */
    feed_s(d, 5, 2, TD_WIRE_RECEIVED, SSE_HEAD);
    feed_s(d, 5, 1, TD_WIRE_RECEIVED, SSE_HEAD);
    feed_s(d, 6, 2, TD_WIRE_RECEIVED, TOKEN "data: [DONE]\n\n");
    feed_s(d, 7, 1, TD_WIRE_RECEIVED, TOKEN TOKEN);
    feed_s(d, 8, 2, TD_WIRE_NOTE, CLOSE);
    feed_s(d, 9, 2, TD_WIRE_RECEIVED, "late");
    assert_int_equal(g.n, 1);
    assert_int_equal(g.x[0].stream, 2);
    assert_int_equal(g.x[0].t_sent_ns, 3);
    assert_string_equal(td_json_get_str(g.x[0].request, "prompt", ""), "Hi");
    assert_int_equal(td_deriver_end(d, &err), TD_OK);
    assert_int_equal(g.n, 2);
    assert_string_equal(g.x[1].error_kind, "cut");
    assert_int_equal(g.x[1].n_tokens, 2);
    assert_int_equal(td_deriver_late(d), 1);
    release(&g);
    td_deriver_free(d);
}

static int forget(void *arg, struct td_exchange *x, struct td_error *err)
{
    (void)x;
    (void)err;
    ++*(int *)arg;
    return TD_OK;
}

/* A long recording opens and closes streams for days. Numbers that follow one another are remembered as
 * closed in little memory; each is still known. */
static void closed_streams_take_little_memory(void **state)
{
    int n = 0;
    struct td_deriver *d = td_deriver_new(forget, &n);
    struct mallinfo2 before, after;

    (void)state;
    for (uint32_t i = 1; i <= 100000; i++) {
        struct td_wire rec = {.stream = i, .dir = TD_WIRE_NOTE, .data = (const uint8_t *)CLOSE, .len = sizeof CLOSE - 1};

        if (i == 1000)
            before = mallinfo2();
        assert_int_equal(td_deriver_feed(d, &rec, NULL), TD_OK);
    }
    after = mallinfo2();
    assert_true(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + 200000);
    for (uint32_t i = 1; i <= 100000; i += 3)
        feed_s(d, 1, i, TD_WIRE_RECEIVED, "late");
    assert_int_equal(n, 100000);
    assert_int_equal(td_deriver_late(d), 33334);
    td_deriver_free(d);
}

static void prompt_ids_of_the_request(void **state)
{
    struct got g = {.n = 0};
    struct td_deriver *d = td_deriver_new(keep, &g);

    (void)state;
    feed_s(d, 2, 1, TD_WIRE_SENT, "POST /x HTTP/1.1\r\nContent-Length: 18\r\n\r\n{\"prompt\":[7,8,9]}");
    feed_s(d, 3, 1, TD_WIRE_RECEIVED, SSE_HEAD TOKEN "data: [DONE]\n\n");
    feed_s(d, 4, 1, TD_WIRE_NOTE, CLOSE);
    assert_int_equal(g.x[0].n_prompt_ids, 3);
    assert_string_equal(g.x[0].prompt_id, "stream-1");
    assert_string_equal(g.x[0].path, "/x");
    release(&g);
    td_deriver_free(d);
}

static void hide_word(const void *word, char *text, size_t n)
{
    char *at;

    (void)n;
    while ((at = strstr(text, word)))
        memset(at, '*', strlen(word));
}

/* A reason quotes the beginning of what the server sent. A key that reaches over the cut is hidden there, too. */
static void no_part_of_a_key_is_quoted(void **state)
{
    static const char *const CASES[][2] = {
        {"HTTP/1.1 307 Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", "redirected to"},
        {"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 2\r\n\r\n{}", "is of type"},
        {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: %s\r\nContent-Length: 2\r\n\r\n{}", "is compressed"},
        {SSE_HEAD "data: {%s\n\n", "is no JSON"},
        {SSE_HEAD "data: \"%s\"\n\n", "but no object"},
        {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"x\":\"%s\"}", "neither choices nor content"},
        {"HTTP/1.1 %s\r\n\r\n", ""},
    };
    char text[400], response[900];
    struct got g;
    size_t i;
    int pad, n;

    (void)state;
    td_hidden_set(hide_word, "Zq9canary7Key");
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (pad = 0; pad < 300; pad++) {
            memset(text, 'x', sizeof text);
            snprintf(text + pad, sizeof text - (size_t)pad, "Zq9canary7Key, and more of it that is long enough to be cut behind the key");
            n = snprintf(response, sizeof response, CASES[i][0], text);
            g = one(response, (size_t)n, (size_t)n, CLOSE);
            assert_non_null(g.x[0].error);
            assert_non_null(strstr(g.x[0].error, CASES[i][1]));
            assert_null(strstr(g.x[0].error, "Zq"));
            release(&g);
        }
    td_hidden_set(NULL, NULL);
}

static int refuse(void *arg, struct td_exchange *x, struct td_error *err)
{
    (void)arg;
    (void)x;
    return td_fail(err, TD_EIO, "disk full");
}

static void emit_failure_goes_up(void **state)
{
    struct td_deriver *d = td_deriver_new(refuse, NULL);
    struct td_wire rec = {.stream = 1, .dir = TD_WIRE_NOTE, .data = (const uint8_t *)CLOSE, .len = sizeof CLOSE - 1};
    struct td_error err = {0};

    (void)state;
    assert_int_equal(td_deriver_feed(d, &rec, &err), TD_EIO);
    assert_string_equal(err.msg, "disk full");
    td_deriver_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vllm_stream_cut_anywhere), cmocka_unit_test(errors_by_name), cmocka_unit_test(times_and_gaps), cmocka_unit_test(chat_with_logprobs),
        cmocka_unit_test(llamacpp_stream), cmocka_unit_test(llamacpp_glyphs), cmocka_unit_test(llamacpp_completions), cmocka_unit_test(llamacpp_wild_count),
        cmocka_unit_test(vllm_generate), cmocka_unit_test(sglang_streams), cmocka_unit_test(sglang_other_forms), cmocka_unit_test(whole_bodies),
        cmocka_unit_test(failures_have_a_kind_and_a_sentence), cmocka_unit_test(finished_without_done_is_complete),
        cmocka_unit_test(what_follows_the_end_is_counted_only), cmocka_unit_test(counts_that_cannot_be_are_not_reported),
        cmocka_unit_test(answers_that_are_too_large_are_refused_by_name),
        cmocka_unit_test(bad_utf8_is_kept_and_noted), cmocka_unit_test(missing_logprobs_are_not_nan),
        cmocka_unit_test(streams_interleave_and_retries_count_once), cmocka_unit_test(closed_streams_take_little_memory), cmocka_unit_test(prompt_ids_of_the_request),
        cmocka_unit_test(emit_failure_goes_up), cmocka_unit_test(no_part_of_a_key_is_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
