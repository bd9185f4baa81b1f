/* test_measured.c - one chat and one completion, measured in everybody's terms; the numbers are computed by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/metrics.md has the chat as its example. tests/live/metric_peers.py compares with the tools themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "metrics/figures.h"
#include "wire/derive.h"

#define MS INT64_C(1000000)
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
#define DELTA(delta) "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"

struct record { int64_t ms; enum td_wire_dir dir; const char *data; };

/* The chat: a role, three messages with 1, 2 and 1 tokens, an end without text, the usage. */
static const struct record CHAT[] = {
    {1000, TD_WIRE_NOTE, "{\"open\":{\"prompt_id\":\"a\",\"category\":\"short\",\"concurrency\":2,\"path\":\"/v1/chat/completions\"}}"},
    {1002, TD_WIRE_SENT, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
    {1050, TD_WIRE_RECEIVED, HEAD DELTA("{\"role\":\"assistant\",\"content\":\"\"}")},
    {1100, TD_WIRE_RECEIVED, DELTA("{\"content\":\"He\"}")},
    {1160, TD_WIRE_RECEIVED,
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo wor\"},\"logprobs\":{\"content\":[{\"token\":\"llo\",\"logprob\":-1},"
     "{\"token\":\" wor\",\"logprob\":-1}]}}]}\n\n"},
    {1180, TD_WIRE_RECEIVED, DELTA("{\"content\":\"ld\"}")},
    {1190, TD_WIRE_RECEIVED, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"},
    {1200, TD_WIRE_RECEIVED, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4}}\n\n"},
    {1210, TD_WIRE_RECEIVED, "data: [DONE]\n\n"},
    {1210, TD_WIRE_NOTE, "{\"close\":{\"ok\":true}}"},
};

/* A completion of one token, and one that fails. */
static const struct record ONE[] = {
    {2000, TD_WIRE_NOTE, "{\"open\":{\"prompt_id\":\"b\",\"category\":\"long\",\"concurrency\":1,\"path\":\"/v1/completions\"}}"},
    {2001, TD_WIRE_SENT, "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
    {2101, TD_WIRE_RECEIVED, HEAD "data: {\"choices\":[{\"index\":0,\"text\":\"Hi\",\"finish_reason\":\"length\"}]}\n\n"},
    {2110, TD_WIRE_RECEIVED, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"},
    {2111, TD_WIRE_NOTE, "{\"close\":{\"ok\":true}}"},
};

static const struct record FAILED[] = {
    {2500, TD_WIRE_NOTE, "{\"open\":{\"prompt_id\":\"c\",\"category\":\"long\",\"concurrency\":1,\"path\":\"/v1/completions\"}}"},
    {2501, TD_WIRE_SENT, "POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
    {3000, TD_WIRE_RECEIVED, HEAD "data: {\"choices\":[{\"index\":0,\"text\":\"Hi\"}]}\n\n"},
    {3000, TD_WIRE_NOTE, "{\"close\":{\"ok\":false,\"kind\":\"cut\",\"error\":\"closed\"}}"},
};

static int keep(void *arg, struct td_exchange *x, struct td_error *err)
{
    return td_measured_add_exchange(arg, x, err);
}

static struct td_wire wire_of(const struct record *r, uint32_t stream)
{
    return (struct td_wire){.t_ns = r->ms * MS, .stream = stream, .dir = r->dir, .data = (const uint8_t *)r->data, .len = strlen(r->data)};
}

/* Reasoning comes first. */
static const struct record THINKS[] = {
    {1000, TD_WIRE_NOTE, "{\"open\":{\"prompt_id\":\"d\",\"category\":\"short\",\"concurrency\":1,\"path\":\"/v1/chat/completions\"}}"},
    {1000, TD_WIRE_SENT, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"},
    {1100, TD_WIRE_RECEIVED, HEAD DELTA("{\"reasoning\":\"Hm\"}")},
    {1200, TD_WIRE_RECEIVED, DELTA("{\"content\":\"He\"}")},
    {1300, TD_WIRE_RECEIVED, DELTA("{\"content\":\"y\"}") "data: [DONE]\n\n"},
    {1300, TD_WIRE_NOTE, "{\"close\":{\"ok\":true}}"},
};

struct records { const struct record *r; size_t n; };
#define RECORDS(array) {array, sizeof(array) / sizeof *(array)}

/* The set of n exchanges: derived as the recorder derives, then the wire read again. */
static struct td_measured_set measure_these(enum td_dialect d, bool texts, const struct records *of, uint32_t n)
{
    struct td_measured_set set = {.dialect = d, .keep_texts = texts};
    struct td_deriver *deriver = td_deriver_new(keep, &set);
    struct td_error err = {0};
    uint32_t s;
    size_t i;

    for (s = 0; s < n; s++)
        for (i = 0; i < of[s].n; i++) {
            const struct td_wire w = wire_of(&of[s].r[i], s + 5);

            assert_int_equal(td_deriver_feed(deriver, &w, &err), TD_OK);
        }
    td_deriver_free(deriver);
    assert_int_equal(set.n, n);
    for (s = 0; td_measured_needs_wire(d) && s < n; s++)
        for (i = 0; i < of[s].n; i++) {
            const struct td_wire w = wire_of(&of[s].r[i], s + 5);

            assert_int_equal(td_measured_add_wire(&set, &w, &err), TD_OK);
        }
    assert_int_equal(td_measured_end(&set, &err), TD_OK);
    return set;
}

static struct td_measured_set measure(enum td_dialect d)
{
    static const struct records ALL[] = {RECORDS(CHAT), RECORDS(ONE), RECORDS(FAILED)};

    return measure_these(d, false, ALL, 3);
}

/* Milliseconds; -1: none. */
static void check_span(const struct td_measured *x, enum td_metric_term t, double ms)
{
    if (ms < 0)
        assert_true(isnan(x->span[t]));
    else
        assert_float_equal(x->span[t] * 1e3, ms, 1e-6);
}

static void check_gaps(const struct td_measured *x, const double *ms, size_t n)
{
    size_t i;

    assert_int_equal(x->n_gaps, n);
    for (i = 0; i < n; i++)
        assert_float_equal(x->gap[i] * 1e3, ms[i], 1e-6);
}

#define CHECK_GAPS(x, ...) check_gaps(x, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void test_tapedeck(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_TAPEDECK);

    (void)state;
    check_span(&set.x[0], TD_TERM_TTFT, 98);         /* 1100 - 1002 */
    CHECK_GAPS(&set.x[0], 30, 30, 20);               /* 60 for two tokens */
    check_span(&set.x[0], TD_TERM_ITL, 80.0 / 3);
    check_span(&set.x[0], TD_TERM_TPOT, 80.0 / 3);   /* (1180 - 1100) / (4 - 1) */
    check_span(&set.x[0], TD_TERM_E2E, 208);         /* 1210 - 1002 */
    check_span(&set.x[1], TD_TERM_TTFT, 100);
    check_span(&set.x[1], TD_TERM_TPOT, -1);
    check_span(&set.x[1], TD_TERM_ITL, -1);
    check_span(&set.x[1], TD_TERM_E2E, 109);
    check_span(&set.x[2], TD_TERM_E2E, -1);
    td_measured_release(&set);
}

static void test_vllm(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_VLLM);

    (void)state;
    check_span(&set.x[0], TD_TERM_TTFT, 50);         /* the role: 1050 - 1000 */
    CHECK_GAPS(&set.x[0], 50, 60, 20, 10);           /* the end without text is one more */
    check_span(&set.x[0], TD_TERM_E2E, 200);         /* the usage message: 1200 - 1000 */
    check_span(&set.x[0], TD_TERM_TPOT, 50);         /* (200 - 50) / (4 - 1) */
    check_span(&set.x[1], TD_TERM_TTFT, 101);
    check_span(&set.x[1], TD_TERM_E2E, 101);         /* of a completion the usage message does not count */
    check_span(&set.x[1], TD_TERM_TPOT, -1);
    check_span(&set.x[2], TD_TERM_TTFT, -1);
    assert_int_equal(set.x[2].n_gaps, 0);
    td_measured_release(&set);
}

static void test_guidellm(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_GUIDELLM);

    (void)state;
    check_span(&set.x[0], TD_TERM_TTFT, 98);         /* 1100 - 1002 */
    check_span(&set.x[0], TD_TERM_TPOT, 178.0 / 4);  /* (1180 - 1002) / 4 */
    check_span(&set.x[0], TD_TERM_ITL, 80.0 / 3);    /* (1180 - 1100) / 3 */
    check_span(&set.x[0], TD_TERM_E2E, 208);
    check_span(&set.x[1], TD_TERM_TPOT, 100);
    check_span(&set.x[1], TD_TERM_ITL, -1);
    td_measured_release(&set);
}

static void test_aiperf(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_AIPERF);

    (void)state;
    check_span(&set.x[0], TD_TERM_TTFT, 100);        /* 1100 - 1000 */
    check_span(&set.x[0], TD_TERM_E2E, 180);         /* 1180 - 1000 */
    check_span(&set.x[0], TD_TERM_ITL, 80.0 / 3);    /* (180 - 100) / 3 */
    CHECK_GAPS(&set.x[0], 60, 20);
    check_span(&set.x[1], TD_TERM_ITL, -1);
    td_measured_release(&set);
}

static void test_inference_perf(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_INFERENCE_PERF);

    (void)state;
    check_span(&set.x[0], TD_TERM_TTFT, 100);
    check_span(&set.x[0], TD_TERM_TPOT, 80.0 / 3);
    check_span(&set.x[0], TD_TERM_NTPOT, 52.5);      /* 210 / 4 */
    CHECK_GAPS(&set.x[0], 60, 0, 20);                /* two tokens of one message */
    check_span(&set.x[0], TD_TERM_E2E, 210);
    check_span(&set.x[1], TD_TERM_TTFT, -1);         /* one token is no stream there */
    check_span(&set.x[1], TD_TERM_NTPOT, 110); /* 2110 - 2000, by one token */
    td_measured_release(&set);
}

/* inference-perf counts the answer's text only; vLLM keeps only that. */
static void test_reasoning(void **state)
{
    static const struct { enum td_dialect d; double ttft; } CASES[] = {{TD_DIALECT_TAPEDECK, 100}, {TD_DIALECT_VLLM, 100},
                                                                        {TD_DIALECT_GUIDELLM, 100}, {TD_DIALECT_AIPERF, 100},
                                                                        {TD_DIALECT_INFERENCE_PERF, 200}};
    static const struct records OF[] = {RECORDS(THINKS)};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct td_measured_set set = measure_these(CASES[i].d, CASES[i].d == TD_DIALECT_VLLM, OF, 1);

        check_span(&set.x[0], TD_TERM_TTFT, CASES[i].ttft);
        if (CASES[i].d == TD_DIALECT_VLLM)
            assert_memory_equal(set.x[0].text, "Hey", set.x[0].text_len);
        td_measured_release(&set);
    }
}

/* An exchange whose bytes are gone has no times where these are needed, and is counted. */
static void test_without_bytes(void **state)
{
    enum td_dialect d;

    (void)state;
    for (d = TD_DIALECT_TAPEDECK; d <= TD_DIALECT_VLLM; d++) {
        struct td_token_event events[] = {{2 * MS, 1}};
        const struct td_exchange x = {.stream = 1, .prompt_id = (char[]){"a"}, .t_sent_ns = MS, .t_end_ns = 3 * MS, .n_tokens = 1,
                                      .events = events, .n_events = 1};
        struct td_measured_set set = {.dialect = d};
        struct td_error err = {0};

        assert_int_equal(td_measured_add_exchange(&set, &x, &err), TD_OK);
        assert_int_equal(td_measured_end(&set, &err), TD_OK);
        assert_int_equal(td_measured_unseen(&set), d == TD_DIALECT_VLLM);
        check_span(&set.x[0], TD_TERM_TTFT, d == TD_DIALECT_VLLM ? -1 : 1);
        td_measured_release(&set);
    }
}

static void test_figures(void **state)
{
    struct td_measured_set set = measure(TD_DIALECT_VLLM);
    const struct td_goodput none = {0};
    struct td_percentiles p;
    struct td_goodput g = {0};
    struct td_figures f;
    struct td_part *part;
    struct td_error err = {0};
    size_t n;

    (void)state;
    assert_int_equal(td_percentiles_parse("50,90", &p, &err), TD_OK);
    assert_int_equal(td_goodput_parse("ttft:0.1s,tpot:60", set.dialect, &g, &err), TD_OK);
    assert_int_equal(td_figures_of(&set, NULL, &g, &p, &f, &err), TD_OK);
    assert_int_equal(f.exchanges, 3);
    assert_int_equal(f.failed, 1);
    assert_float_equal(f.duration_s, 2.0, 1e-9);     /* 1000 to 3000, the one that failed included */
    assert_float_equal(f.requests_per_s, 1.0, 1e-9);
    assert_float_equal(f.output_per_s, 2.5, 1e-9);   /* 4 + 1 */
    assert_float_equal(f.tokens_per_s, 7.5, 1e-9);   /* and 7 + 3 */
    assert_int_equal(f.good, 1);                     /* 50 ms; the other's 101 ms are too many */
    assert_int_equal(f.judged, 3);
    assert_float_equal(f.good_per_s, 0.5, 1e-9);
    assert_float_equal(f.term[TD_TERM_TTFT].at[0], 0.0755, 1e-9);
    assert_float_equal(f.term[TD_TERM_TTFT].at[1], 0.0959, 1e-9);
    assert_int_equal(f.term[TD_TERM_ITL].n, 4);
    assert_float_equal(f.term[TD_TERM_ITL].at[0], 0.035, 1e-9); /* of 10, 20, 50, 60 */
    assert_int_equal(td_parts_of(&set, &part, &n, &err), TD_OK);
    assert_int_equal(n, 2);
    assert_string_equal(part[0].category, "long");
    assert_int_equal(td_figures_of(&set, &part[1], &none, &p, &f, &err), TD_OK);
    assert_int_equal(f.exchanges, 1);
    assert_float_equal(f.duration_s, 0.21, 1e-9);
    assert_true(isnan(f.good_per_s));
    set.in_turns = true; /* another server answered between these: no rate is known */
    assert_int_equal(td_figures_of(&set, NULL, &g, &p, &f, &err), TD_OK);
    assert_true(isnan(f.duration_s) && isnan(f.requests_per_s) && isnan(f.output_per_s) && isnan(f.good_per_s));
    assert_int_equal(f.term[TD_TERM_ITL].n, 4);
    free(part);
    td_measured_release(&set);
}

/* Of what others sent, concurrency changes with each exchange. */
static void test_parts_of_a_capture(void **state)
{
    static const int32_t IN_FLIGHT[] = {1, 2, 3, 4, 7, 8, 1, INT32_MAX, 0};
    static const struct { int32_t from, to; int64_t n; } WANT[] = {{0, 0, 1}, {1, 1, 2}, {2, 3, 2}, {4, 7, 2}, {8, 15, 1}, {1 << 30, INT32_MAX, 1}};
    cJSON *extra = cJSON_Parse("{\"connection\":1}");
    struct td_exchange x = {.phase = TD_PHASE_TIMED, .path = (char *)"/v1/completions", .category = (char *)"captured", .t_sent_ns = 1000,
                            .t_end_ns = 2000, .extra = extra};
    struct td_measured_set set = {.dialect = TD_DIALECT_TAPEDECK};
    const struct td_goodput none = {0};
    struct td_percentiles p;
    struct td_figures f;
    struct td_part *part;
    struct td_error err = {0};
    size_t n, i;

    (void)state;
    assert_int_equal(td_percentiles_parse("50", &p, &err), TD_OK);
    for (i = 0; i < sizeof IN_FLIGHT / sizeof *IN_FLIGHT; i++) {
        x.stream = (uint32_t)i;
        x.concurrency = IN_FLIGHT[i];
        assert_int_equal(td_measured_add_exchange(&set, &x, &err), TD_OK);
    }
    assert_int_equal(td_measured_end(&set, &err), TD_OK);
    assert_int_equal(td_parts_of(&set, &part, &n, &err), TD_OK);
    assert_int_equal(n, sizeof WANT / sizeof *WANT);
    for (i = 0; i < n; i++) {
        assert_int_equal(part[i].concurrency, WANT[i].from);
        assert_int_equal(part[i].up_to, WANT[i].to);
        assert_int_equal(td_figures_of(&set, &part[i], &none, &p, &f, &err), TD_OK);
        assert_int_equal(f.exchanges, WANT[i].n);
        assert_true(isnan(f.requests_per_s));
    }
    free(part);
    td_measured_release(&set);
    cJSON_Delete(extra);
}

/* A limit on a term that an exchange does not have: one token has no ITL, and no TPOT. */
static void test_goodput_without_a_value(void **state)
{
    static const struct { enum td_dialect d; const char *limit; int good; } CASES[] = {
        {TD_DIALECT_TAPEDECK, "itl:1ms", 1},  {TD_DIALECT_VLLM, "tpot:1", 1},           {TD_DIALECT_GUIDELLM, "tpot:1", -1},
        {TD_DIALECT_AIPERF, "itl:1000", 0},   {TD_DIALECT_INFERENCE_PERF, "ttft:9s", 0}, {TD_DIALECT_VLLM, "e2el:101ms", 1},
        {TD_DIALECT_VLLM, "e2el:100999us", 0}};
    struct td_error err = {0};
    struct td_goodput g;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct td_measured_set set = measure(CASES[i].d);

        assert_int_equal(td_goodput_parse(CASES[i].limit, CASES[i].d, &g, &err), TD_OK);
        assert_int_equal(td_goodput_of(&g, CASES[i].d, &set.x[1]), CASES[i].good);
        assert_int_equal(td_goodput_of(&g, CASES[i].d, &set.x[2]), 0);
        td_measured_release(&set);
    }
}

static void test_goodput_is_refused(void **state)
{
    static const char *const BAD[] = {"", "ttft", "ttft:", "ttft:-1", "ttft:1m", "ttft:1ms;", "itl:1", "ttft:1,", "x:1", "ttft:nan", "ttft:inf"};
    struct td_goodput g;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct td_error err = {0};

        assert_int_equal(td_goodput_parse(BAD[i], TD_DIALECT_VLLM, &g, &err), TD_EINVAL);
    }
}

/* Of 1, 2, 3, 4 with weights 1, 1, 1, 7: numpy's rule leaves weights out, GuideLLM's sums them up. */
static void test_spread(void **state)
{
    double v[] = {3, 1, 4, 2};
    const double weight[] = {1, 1, 7, 1};
    const struct td_percentiles p = {{20, 50, 90}, 3};
    struct td_spread s;

    (void)state;
    assert_int_equal(td_spread_of(TD_DIALECT_GUIDELLM, v, weight, 4, &p, &s), TD_OK);
    assert_float_equal(s.mean, 3.4, 1e-12);          /* (1 + 2 + 3 + 28) / 10 */
    assert_float_equal(s.std, 1.0198039027185569, 1e-12); /* of 2.4, 1.4, 0.4, 0.6 x 7: sqrt(10.4 / 10) */
    assert_float_equal(s.at[0], 2, 0);
    assert_float_equal(s.at[1], 4, 0);
    assert_int_equal(td_spread_of(TD_DIALECT_VLLM, v, NULL, 4, &p, &s), TD_OK);
    assert_float_equal(s.mean, 2.5, 1e-12);
    assert_float_equal(s.at[0], 1.6, 1e-12);
    assert_float_equal(s.at[2], 3.7, 1e-12);
    assert_int_equal(td_spread_of(TD_DIALECT_VLLM, v, NULL, 0, &p, &s), TD_OK);
    assert_true(isnan(s.mean) && isnan(s.at[0]) && s.n == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tapedeck), cmocka_unit_test(test_vllm),           cmocka_unit_test(test_guidellm),
        cmocka_unit_test(test_aiperf),   cmocka_unit_test(test_inference_perf), cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_without_bytes), cmocka_unit_test(test_figures), cmocka_unit_test(test_parts_of_a_capture),
        cmocka_unit_test(test_goodput_without_a_value), cmocka_unit_test(test_goodput_is_refused), cmocka_unit_test(test_spread)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
