/* format_sample.h - a small recording with everything in it, for the tests of the format.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Include after cmocka.h. Synthetic: it stands for no server. */
#ifndef TD_TESTS_UNIT_FORMAT_FORMAT_SAMPLE_H
#define TD_TESTS_UNIT_FORMAT_FORMAT_SAMPLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "format/fixture.h"

#define SAMPLE_SECRET "s3cr3t-do-not-keep"

/* A new folder; in memory where there is room for that, since these tests sync a great deal. */
static inline bool sample_scratch(char *out, size_t n)
{
    snprintf(out, n, "%s/td-test-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    return mkdtemp(out) != NULL;
}

static inline char *copy(const char *s)
{
    return strdup(s);
}

static inline cJSON *json(const char *text)
{
    return td_json_parse(text, strlen(text), NULL);
}

static inline struct td_exchange sample_exchange(void)
{
    static const char text[] = "a\0b\xff\xc0\x80 \xe4\xbd\xa0\n\"";
    struct td_exchange x = {.stream = 7, .repeat = 2, .concurrency = 4, .phase = TD_PHASE_TAPPED, .http_status = 200,
                            .ids_complete = true, .n_tokens = 3, .top_k = 2, .n_prompt_ids = 2, .n_events = 2,
                            .usage = {2, 3}, .t_sent_ns = 9007199254740993LL, .t_first_byte_ns = 11, .t_end_ns = 12};

    x.prompt_id = copy("short-1");
    x.category = copy("short");
    x.api = copy("vllm");
    x.method = copy("POST");
    x.path = copy("/v1/completions");
    x.finish_reason = copy("length");
    x.request = json("{\"prompt\":\"x\\u0000y\",\"seed\":9007199254740993}");
    assert_non_null(x.request);
    x.prompt_ids = malloc(8);
    x.prompt_ids[0] = 1;
    x.prompt_ids[1] = 2147483647;
    x.token_ids = malloc(12);
    x.logprobs = malloc(12);
    x.token_text = calloc(3, sizeof(char *));
    x.top = malloc(6 * sizeof *x.top);
    for (int i = 0; i < 3; i++) {
        x.token_ids[i] = 100 + i;
        x.logprobs[i] = i == 1 ? NAN : i == 2 ? -INFINITY : -0.1f;
        x.top[2 * i] = (struct td_alt){100 + i, -0.1f};
        x.top[2 * i + 1] = (struct td_alt){-1, NAN};
    }
    x.token_text[0] = copy("plain");
    x.token_text[1] = copy("\xff\xfe"); /* bad UTF-8 */
    x.token_text[2] = copy("n\xc0\x80l"); /* json.h's NUL */
    x.text = malloc(sizeof text - 1);
    memcpy(x.text, text, sizeof text - 1);
    x.text_len = sizeof text - 1;
    x.events = malloc(2 * sizeof *x.events);
    x.events[0] = (struct td_token_event){10, 1};
    x.events[1] = (struct td_token_event){20, 2};
    x.extra = json("{\"later\":{\"a\":[1,\"NaN\"]},\"big\":9223372036854775807}");
    assert_non_null(x.extra);
    return x;
}

static inline void check_exchange(const struct td_exchange *x)
{
    struct td_exchange want = sample_exchange();

    assert_int_equal(x->stream, 7);
    assert_int_equal(x->repeat, 2);
    assert_int_equal(x->phase, TD_PHASE_TAPPED);
    assert_string_equal(x->prompt_id, "short-1");
    assert_string_equal(x->finish_reason, "length");
    assert_null(x->error);
    assert_int_equal(x->n_tokens, 3);
    assert_memory_equal(x->token_ids, want.token_ids, 12);
    assert_memory_equal(x->prompt_ids, want.prompt_ids, 8);
    assert_true(x->logprobs[0] == -0.1f && isnan(x->logprobs[1]) && isinf(x->logprobs[2]) && x->logprobs[2] < 0);
    assert_int_equal(x->top_k, 2);
    assert_int_equal(x->top[2].id, 101);
    assert_true(x->top[2].logprob == -0.1f && x->top[3].id == -1 && isnan(x->top[3].logprob));
    for (int i = 0; i < 3; i++)
        assert_string_equal(x->token_text[i], want.token_text[i]);
    assert_int_equal(x->text_len, want.text_len);
    assert_memory_equal(x->text, want.text, want.text_len);
    assert_true(x->t_sent_ns == 9007199254740993LL);
    assert_int_equal(x->events[1].t_ns, 20);
    assert_true(td_json_get_i64(x->request, "seed", 0) == 9007199254740993LL);
    assert_true(td_json_get_i64(x->extra, "big", 0) == INT64_MAX);
    assert_true(cJSON_IsArray(td_json_get(td_json_get(x->extra, "later"), "a")));
    td_exchange_release(&want);
}

/* Wire bytes of stream n: a request with a secret header, an answer in SSE. */
static inline void sample_wire(struct td_writer *w, uint32_t n)
{
    static const char sent[] = "POST /v1/completions?api_key=" SAMPLE_SECRET " HTTP/1.1\r\nAuthorization: Bearer " SAMPLE_SECRET
                               "\r\nContent-Length: 16\r\n\r\n{\"prompt\":\"a\\n\"}";
    static const char got[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"index\":0,\"text\":\" hi\","
                              "\"token_ids\":[5],\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    char open[256];
    int k = snprintf(open, sizeof open, "{\"open\":{\"prompt_id\":\"p-%u\",\"category\":\"short\",\"repeat\":0,\"concurrency\":1,"
                     "\"phase\":\"timed\",\"api\":\"vllm\",\"method\":\"POST\",\"path\":\"/v1/completions?api_key=" SAMPLE_SECRET "\"}}", n);
    const struct td_wire all[] = {
        {1000 + n, n, TD_WIRE_NOTE, (const uint8_t *)open, (size_t)k, false},
        {2000 + n, n, TD_WIRE_SENT, (const uint8_t *)sent, 40, false},
        {2001 + n, n, TD_WIRE_SENT, (const uint8_t *)sent + 40, sizeof sent - 41, false},
        {3000 + n, n, TD_WIRE_RECEIVED, (const uint8_t *)got, 17, false},
        {3001 + n, n, TD_WIRE_RECEIVED, (const uint8_t *)got + 17, sizeof got - 18, false},
        {4000 + n, n, TD_WIRE_NOTE, (const uint8_t *)"{\"close\":{\"ok\":true}}", 21, false},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(td_writer_wire(w, &all[i]), TD_OK);
}

/* Op n with a tensor of halves (byte planes), one of integers (zstd), one of noise (raw). */
static inline void sample_op(struct td_writer *w, int64_t n)
{
    struct td_tensor_rec in[3] = {{.role = "a", .dtype = "F16", .ndim = 2, .shape = {7, 143}, .strides = {143, 1}, .align = 64, .stored = true},
                                  {.role = "qweight", .dtype = "I32", .ndim = 2, .shape = {16, 32}, .strides = {32, 1}, .stored = true},
                                  {.role = "noise", .dtype = "U8", .ndim = 1, .shape = {333}, .strides = {1}, .stored = true}};
    struct td_op op = {.op = n, .step = 5, .pid = 99, .t_ns = 1, .kind = (char *)"gptq_gemm", .layer = (char *)"model.layers.0.mlp.up_proj",
                       .in = in, .n_in = 3, .act_rounding = (char *)"none", .has_out = true, .impl = {.symbol = (char *)"f", .duration_ns = -1}};
    uint16_t half[1001];
    int32_t q[512];
    uint8_t noise[333];
    uint32_t seed = 12345;

    for (int i = 0; i < 1001; i++)
        half[i] = (uint16_t)(0x3C00 + (i * 7919 + n) % 300);
    for (int i = 0; i < 512; i++)
        q[i] = i / 8;
    for (int i = 0; i < 333; i++)
        noise[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    assert_int_equal(td_writer_blob(w, half, sizeof half, 2, &in[0].blob), TD_OK);
    assert_int_equal(td_writer_blob(w, q, sizeof q, 1, &in[1].blob), TD_OK);
    assert_int_equal(td_writer_blob(w, noise, sizeof noise, 1, &in[2].blob), TD_OK);
    op.out = in[0];
    memcpy(op.out.role, "c", 2);
    op.attrs = json("{\"m\":7}");
    op.extra = json("{\"new\":1,\"impl\":{\"x\":2},\"in\":{\"a\":{\"y\":3}},\"out\":{\"z\":4}}");
    assert_int_equal(td_writer_op(w, &op), TD_OK);
    cJSON_Delete(op.attrs);
    cJSON_Delete(op.extra);
}

static inline void write_sample(const char *dir, const char *state)
{
    struct td_span span = {3, 0, 2, 17, true};
    struct td_step s = {.step = 5, .t_ns = 6, .how = TD_HOW_EXACT, .spans = &span, .n_spans = 1, .padding = 2, .pid = 99};
    struct td_exchange x = sample_exchange();
    struct td_error err = {0};
    struct td_writer *w;

    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &w, &err), TD_OK);
    td_writer_fact_str(w, "server", "kind", "vllm");
    td_writer_fact_str(w, "server", "model", "synthetic");
    sample_wire(w, 0);
    sample_op(w, 0);
    assert_int_equal(td_writer_commit(w, &err), TD_OK);
    sample_wire(w, 1);
    sample_op(w, 4);
    assert_int_equal(td_writer_exchange(w, &x), TD_OK);
    assert_int_equal(td_writer_step(w, &s), TD_OK);
    td_writer_count(w, "ops.seen", 3, 30);
    assert_int_equal(td_writer_close(w, state, &err), TD_OK);
    td_exchange_release(&x);
}

#endif
