/* test_format_redact.c - what must not reach the disk does not, however the bytes are split.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/json.h"
#include "format/fixture.h"
#include "format/redact.h"
#include "format/redact_words.h"

#define SECRET "s3cr3t-Paris"

/* ---- JSON text -------------------------------------------------------------------------------------------------------- */

static int64_t apply(const char *const *paths, bool no_text, const char *in, char *out)
{
    struct td_redact_rules rules = {.no_text = no_text};
    int64_t changed;

    for (; paths && *paths; paths++)
        assert_int_equal(td_redact_path_parse(&rules.path[rules.n_paths++], *paths, NULL), TD_OK);
    strcpy(out, in);
    changed = td_redact_json(&rules, NULL, out, strlen(out));
    for (int i = 0; i < rules.n_paths; i++)
        td_redact_path_release(&rules.path[i]);
    return changed;
}

#define P(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_json(const char *const *paths, bool no_text, const char *in, const char *want)
{
    char out[1024];

    assert_true(apply(paths, no_text, in, out) >= 0);
    assert_string_equal(out, want);
    assert_int_equal(strlen(in), strlen(want));
}

static void test_json_paths(void **state)
{
    (void)state;
    check_json(P("prompt"), false, "{\"prompt\":\"abc\",\"x\":{\"prompt\":\"abc\"}}", "{\"prompt\":\"***\",\"x\":{\"prompt\":\"abc\"}}");
    check_json(P("messages[*].content"), false, "{\"messages\": [ {\"role\":\"user\",\"content\":\"hi\"}, {\"content\":\"yo\"} ]}",
               "{\"messages\": [ {\"role\":\"user\",\"content\":\"**\"}, {\"content\":\"**\"} ]}");
    check_json(P("**.id"), false, "{\"id\":12,\"a\":[{\"id\":\"x\"}]}", "{\"id\":11,\"a\":[{\"id\":\"*\"}]}");
    check_json(P("ids"), false, "{\"ids\":[1,-2.5e-3,true,false,null]}", "{\"ids\":[1,-1.1e-1,null,null ,null]}");
    check_json(P("a.*.b"), false, "{\"a\":{\"q\":{\"b\":\"1\"}},\"b\":\"1\"}", "{\"a\":{\"q\":{\"b\":\"*\"}},\"b\":\"1\"}");
    /* escapes keep their decoded length; a key spelt with escapes is found */
    check_json(P("prompt"), false, "{\"prompt\":\"a\\n\\u00e9\\u4f60\\ud83d\\ude00\\\"\"}",
               "{\"prompt\":\"*\\/\\u00b7\\u2022\\ud83d\\udd12\\/\"}");
    check_json(P("prompt"), false, "{\"\\u0070rompt\":\"abc\"}", "{\"\\u0070rompt\":\"***\"}");
    check_json(P("prompt"), false, "{\"prompt\":\"\xff\xc3\xa9\",\"n\":NaN}", "{\"prompt\":\"***\",\"n\":NaN}");
}

static void test_json_no_text(void **state)
{
    (void)state;
    check_json(NULL, true, "{\"model\":\"m\",\"prompt\":\"abc\",\"seed\":7}", "{\"model\":\"m\",\"prompt\":\"***\",\"seed\":7}");
    check_json(NULL, true, "{\"prompt\":[1,2,3]}", "{\"prompt\":[1,2,3]}");
    check_json(NULL, true, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"abc\"}]}]}",
               "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"***\"}]}]}");
    check_json(NULL, true, "{\"choices\":[{\"text\":\"ab\",\"logprobs\":{\"tokens\":[\"a\",\"token_id:17\"],\"top_logprobs\":[{\"a\":-0.5,\"token_id:17\":-1}]}}]}",
               "{\"choices\":[{\"text\":\"**\",\"logprobs\":{\"tokens\":[\"*\",\"token_id:17\"],\"top_logprobs\":[{\"*\":-0.5,\"token_id:17\":-1}]}}]}");
    check_json(NULL, true, "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"ab\",\"logprob\":-0.5,\"bytes\":[97,98],\"top_logprobs\":[{\"token\":\"ab\",\"logprob\":-0.5}]}]}}]}",
               "{\"choices\":[{\"logprobs\":{\"content\":[{\"token\":\"**\",\"logprob\":-0.5,\"bytes\":[11,11],\"top_logprobs\":[{\"token\":\"**\",\"logprob\":-0.5}]}]}}]}");
    check_json(NULL, true, "{\"error\":{\"message\":\"bad abc\",\"code\":400}}", "{\"error\":{\"message\":\"*******\",\"code\":400}}");
}

static void test_json_bad(void **state)
{
    static const char *const bad[] = {"", "{", "{\"prompt\":\"abc}", "{\"prompt\":\"abc\"", "{\"prompt\":\"abc\"}x", "[1,]", "tru", "{\"a\" 1}", "{\"a\":\"\\q\"}"};
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(apply(P("**.prompt"), true, bad[i], out), TD_ECORRUPT);
        assert_string_equal(out, bad[i]);
    }
}

static void test_path_syntax(void **state)
{
    static const char *const bad[] = {"", "a..b", "a.", ".a", "a[", "a[*]b", "a.**.b", "**", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q"};
    struct td_redact_path p;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(td_redact_path_parse(&p, bad[i], NULL), TD_EINVAL);
}

static void test_urls(void **state)
{
    char url[] = "POST /v1?a=1&api_key=abc&x-api-key=def&key=ghi#k HTTP/1.1 http://u:pw@host/?token=t";
    char escaped[] = "/v1?api%5Fkey=abc&a%20b=1;token=t&%41PI%5fKEY=k&api%5=1 HTTP/1.1; key=1";

    (void)state;
    td_redact_query(url, strlen(url));
    assert_string_equal(url, "POST /v1?a=1&api_key=***&x-api-key=***&key=***#k HTTP/1.1 http://****@host/?token=*");
    td_redact_query(escaped, strlen(escaped));
    assert_string_equal(escaped, "/v1?api%5Fkey=***&a%20b=1;token=*&%41PI%5fKEY=*&api%5=1 HTTP/1.1; key=1");
}

static void check_text(const char *in, const char *want)
{
    char text[400];

    snprintf(text, sizeof text, "%s", in);
    td_redact_text(text, strlen(text));
    assert_string_equal(text, want);
}

static void test_texts(void **state)
{
    (void)state;
    check_text("hf_token='abc', model='m', api_key=None", "hf_token='***', model='m', api_key=None");
    check_text("{\"api_key\": [\"a\", {\"b\": 1}], \"x\": 1}", "{\"api_key\": [\"*\", {\"*\": *}], \"x\": 1}");
    check_text("{\\\"apiKey\\\":\\\"abc\\\",\\\"port\\\":1}", "{\\\"apiKey\\\":\\\"***\\\",\\\"port\\\":1}");
    check_text("Authorization : Bearer abc, next", "Authorization : Bearer ***, next");
    check_text("it said: Bearer abcdefgh!", "it said: Bearer ********!");
    check_text("Basic words and a key of 3 monkeys: fine", "Basic words and a key of 3 monkeys: fine");
    check_text("key hf_abcdefghijklmnopqrst and sk-short", "key *********************** and sk-short");
    check_text("max_tokens=5 token_ids=[1] http://h/x?y=1", "max_tokens=5 token_ids=[1] http://h/x?y=1");
    check_text("aws_access_key_id: 12 sessionCookies=a", "aws_access_key_id: ** sessionCookies=*");
    check_text("password=", "password=");
    check_text("password", "password");
    check_text("secret=\"open", "secret=\"****");
    check_text("token1=ab, API_KEY2: cd; max_tokens=5, 'jwt1': b'ef'", "token1=**, API_KEY2: **; max_tokens=5, 'jwt1': b'**'");
    /* pairs */
    check_text("{\"key\": \"api_key\", \"value\": \"ab, {c}\"}", "{\"key\": \"*******\", \"value\": \"*******\"}");
    check_text("{\"value\": [\"a\", {\"b\": 12}], \"k\": \"hf_token\"}", "{\"value\": [\"*\", {\"*\": **}], \"k\": \"hf_token\"}");
    check_text("{name: HF_TOKEN, value: abc}", "{name: HF_TOKEN, value: ***}");
    check_text("don't ('api_key', 'it\\'s'), [\"a\", \"b\"]", "don't ('api_key', '*****'), [\"a\", \"b\"]");
    check_text("[\"api_key\",\"a\\\"b\"] (x, y) ['k', 'v']", "[\"api_key\",\"****\"] (x, y) ['k', 'v']");
    check_text("{\\\"k\\\":\\\"jwt1\\\",\\\"v\\\":\\\"a\\\"}", "{\\\"k\\\":\\\"jwt1\\\",\\\"v\\\":\\\"*\\\"}");
    check_text("[[[[[[[[[[[[[[[[[[[\"api_key\",\"a\"]", "[[[[[[[[[[[[[[[[[[[\"api_key\",\"a\"]"); /* too deep */
    check_text("(\"api_key\", \"open", "(\"api_key\", \"open");
    check_text("]})(,[,:=\"'", "]})(,[,:=\"'");
}

static void check_command(const char *const *in, const char *want)
{
    enum td_expect expect = TD_EXPECT_NOTHING;
    char all[600] = "";

    for (; *in; in++) {
        char word[200];

        snprintf(word, sizeof word, "%s", *in);
        td_redact_command_word(&expect, word, strlen(word));
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? " " : "", word);
    }
    assert_string_equal(all, want);
}

static void test_command_lines(void **state)
{
    (void)state;
    check_command(P("vllm serve m --api-key abc --tokenizer x --hf-token=def OPENAI_API_KEY=ghi --port 1"),
                  "vllm serve m --api-key *** --tokenizer x --hf-token=*** OPENAI_API_KEY=*** --port 1");
    check_command(P("--api-key", "a", "b", "--port", "80", "--pat", "c", "-k", "d", "-p", "e", "-pf"),
                  "--api-key * * --port 80 --pat * -k * -p * -p*");
    check_command(P("--env", "A=b c", "-e", "D=e", "--env=F=g", "-eH=i", "plain"), "--env A=*** -e D=* --env=F=* -eH=* plain");
    check_command(P("--header", "X-A: b", "-H", "C:d", "-HE:f", "--headers", "{\"G\": \"h\"}"),
                  "--header X-A:** -H C:* -HE:* --headers {\"*\": \"*\"}");
    check_command(P("-u", "me:b", "-u", "script.py", "--passphrase", "--verbose", "x"), "-u me:* -u script.py --passphrase --verbose x");
    check_command(P("sh", "-c", "exec srv --token 'a b' --name \"--api-key\" --port 1"), "sh -c exec srv --token '***' --name \"--api-key\" --port 1");
    check_command(P("--config", "{\"api_key\":\"a\",\"n\":1}", "http://u:p@h/"), "--config {\"api_key\":\"*\",\"n\":1} http://***@h/");
    check_command(P("-", "", "--", "x"), "-  -- x");
}

/* ---- streams, cut at every place -------------------------------------------------------------------------------------- */

struct seen { struct td_buf side[2]; int64_t last_t; int records; bool flagged; };

static int collect(void *ctx, const struct td_wire *rec)
{
    struct seen *s = ctx;

    assert_true(rec->t_ns >= s->last_t); /* the order of the stream stays */
    s->last_t = rec->t_ns;
    s->records++;
    s->flagged |= rec->redacted;
    if (rec->dir != TD_WIRE_NOTE)
        td_buf_add(&s->side[rec->dir], rec->data, rec->len);
    return TD_OK;
}

static void feed(struct td_redactor *r, struct seen *s, int64_t *t, enum td_wire_dir dir, const char *p, size_t n, size_t cut)
{
    while (n) {
        size_t part = n < cut ? n : cut;

        assert_int_equal(td_redactor_wire(r, &(struct td_wire){(*t)++, 3, dir, (const uint8_t *)p, part, false}, collect, s), TD_OK);
        p += part;
        n -= part;
    }
}

static void exchange(const struct td_redaction *rules, const char *sent, const char *got, size_t cut, struct seen *s, struct td_redact_counts *counts)
{
    static const char open[] = "{\"open\":{\"path\":\"/v1?key=" SECRET "\"}}", close[] = "{\"close\":{\"ok\":true}}";
    struct td_redactor *r;
    int64_t t = 0;

    memset(s, 0, sizeof *s);
    td_buf_init(&s->side[0], 1 << 26);
    td_buf_init(&s->side[1], 1 << 26);
    assert_int_equal(td_redactor_new(rules, &r, NULL), TD_OK);
    feed(r, s, &t, TD_WIRE_NOTE, open, strlen(open), 1000);
    feed(r, s, &t, TD_WIRE_SENT, sent, strlen(sent), cut);
    feed(r, s, &t, TD_WIRE_RECEIVED, got, strlen(got), cut);
    feed(r, s, &t, TD_WIRE_NOTE, close, strlen(close), 1000);
    assert_int_equal(s->records, t); /* after the close note nothing is held */
    assert_int_equal(td_redactor_finish(r, collect, s), TD_OK);
    assert_int_equal(s->records, t);
    *counts = *td_redactor_counts(r);
    td_redactor_free(r);
    assert_int_equal(s->side[0].len, strlen(sent));
    assert_int_equal(s->side[1].len, strlen(got));
}

static void drop(struct seen *s)
{
    td_buf_release(&s->side[0]);
    td_buf_release(&s->side[1]);
}

static const char SENT[] =
    "POST /v1/completions?api_key=" SECRET "&n=1 HTTP/1.1\r\nHost: h\r\nauthorization: Bearer " SECRET "\r\nX-Long: a\r\n"
    "Content-Type: application/json\r\nContent-Length: 44\r\n\r\n{\"model\":\"m\",\"prompt\":\"tell s3cr3t-Paris !\"}";

static const char GOT_SSE[] =
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: id=" SECRET "\r\n folded-" SECRET "\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "2f\r\ndata: {\"choices\":[{\"text\":\"s3cr3t-Paris\",\"ids\":\r\n"
    "1f;ext=1\r\n[5]}]}\r\n\r\nevent: x\r\n: s3cr3t-Pa\r\n"
    "13\r\nris\n\ndata: [DONE]\n\n\r\n"
    "0\r\nSet-Cookie: " SECRET "\r\n\r\n";

static void test_streams_at_every_cut(void **state)
{
    static const char *const paths[] = {"prompt", "choices[*].text", NULL};
    struct td_redaction by_path = {.json_paths = paths}, no_text = {.no_text = true};
    size_t cut;
    struct seen s;
    struct td_redact_counts c;

    (void)state;
    for (cut = 1; cut < 400; cut += cut < 80 ? 1 : 37) {
        const struct td_redaction *all[] = {&by_path, &no_text};

        for (int i = 0; i < 2; i++) {
            exchange(all[i], SENT, GOT_SSE, cut, &s, &c);
            assert_null(memmem(s.side[0].data, s.side[0].len, "s3cr", 4));
            assert_null(memmem(s.side[1].data, s.side[1].len, "s3cr", 4));
            assert_non_null(strstr(s.side[0].data, "\r\n\r\n{\"model\":\"m\",\"prompt\":\"*******************\"}"));
            assert_non_null(strstr(s.side[0].data, i ? "?************************ HTTP/1.1\r\nHost: h\r\nauthorization: *******************\r\n******: *\r\n"
                                                     : "?api_key=************&n=1 HTTP/1.1\r\nHost: h\r\nauthorization: *******************\r\nX-Long: a\r\n"));
            assert_non_null(strstr(s.side[1].data, i ? "2f\r\ndata: {\"choices\":[{\"text\":\"************\",\"***\":\r\n1f;*****\r\n[1]}]}\r\n"
                                                     : "2f\r\ndata: {\"choices\":[{\"text\":\"************\",\"ids\":\r\n1f;ext=1\r\n[5]}]}\r\n"));
            assert_non_null(strstr(s.side[1].data, "data: [DONE]\n\n\r\n0\r\n"));
            assert_non_null(strstr(s.side[1].data, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: ***"));
            assert_true(s.flagged && c.headers > 40 && c.urls >= 24 && c.json > 20);
            assert_int_equal(c.over_limit, 0);
            drop(&s);
        }
    }
}

/* What was sent as a header comes back: in other headers, in a body, in an error's text, however it is
 * cut. A value that any message may hold is not searched for. */
static void test_sent_headers(void **state)
{
    static const char *const sent_headers[] = {"X-Any: " SECRET, "Authorization:  Bearer sesame-sesame-1", "Accept: application/json",
                                               "X-Shown: not-secret-at-all", NULL},
                            *const shown[] = {"x-shown", NULL};
    struct td_redaction rules = {.sent = sent_headers, .shown = shown};
    static const char sent[] = "POST /v1 HTTP/1.1\r\nx-any : " SECRET "\r\nAccept: application/json\r\nX-Shown: not-secret-at-all\r\n\r\n",
                      got[] = "HTTP/1.1 401 sesame-sesame-1\r\nX-ANY: other\r\nX-Shown: a\r\nContent-Type: application/json\r\n"
                              "X-Echo: Bearer sesame-sesame-1\r\nX-Refresh-Token-2: abc\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "16\r\nno: sesame-sesame-sesa\r\n"
                              "14\r\nme-1, application/js\r\n0\r\nX-Any: abc\r\nSet-Cookie : def\r\n\r\n";
    struct td_redactor *r;
    struct seen s;
    struct td_redact_counts c;
    char error[] = "HTTP 401: no sesame-sesame-1 and ses", cut[] = "bad: Bearer sesame-s";
    size_t at;

    (void)state;
    for (at = 1; at < 300; at += at < 60 ? 1 : 37) {
        exchange(&rules, sent, got, at, &s, &c);
        assert_null(strstr(s.side[0].data, SECRET));
        assert_non_null(strstr(s.side[0].data, "\r\nX-Shown: not-secret-at-all\r\n"));
        assert_non_null(strstr(s.side[0].data, "\r\nAccept: ****************\r\n")); /* it was given, so it is a secret */
        assert_non_null(strstr(s.side[1].data, "HTTP/1.1 401 ***************\r\nX-ANY: *****\r\nX-Shown: a\r\nContent-Type: application/json\r\n"
                                               "X-Echo: **********************\r\nX-Refresh-Token-2: ***\r\n"));
        assert_non_null(strstr(s.side[1].data, "16\r\nno: sesame-***********\r\n14\r\n****, application/js\r\n0\r\nX-Any: ***\r\nSet-Cookie : ***\r\n"));
        drop(&s);
    }
    assert_int_equal(td_redactor_new(&rules, &r, NULL), TD_OK);
    td_redactor_error(r, true, error);
    assert_string_equal(error, "HTTP 401: no *************** and ses");
    td_redactor_error(r, true, cut);
    assert_string_equal(cut, "bad: ***************");
    td_redactor_free(r);
}

/* A line that ends the headers for one reader only: what stands behind it is redacted as headers, and as a body. Once
 * without and once with the end of a message, behind which a reader may find another one. */
static void test_headers_that_end_for_some(void **state)
{
    static const char *const line[] = {"\r\r\n", "\rX: 1\r\n", "\r\r\r\n", "X: 1\r\n\r\r\nHTTP/1.1 200 OK\r\nContent-Length: 9999\r\n"},
                            *const paths[] = {"prompt", NULL};
    static const char *const begin[] = {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n",
                                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"};
    const struct td_redaction rules[] = {{0}, {.json_paths = paths}, {.no_text = true}};
    struct td_redact_counts c;
    struct seen s;
    char sent[600], got[600];
    size_t i, k, cut;

    (void)state;
    for (i = 0; i < 4 * 4 * 3; i++) {
        k = i / 4 % 4;
        snprintf(got, sizeof got, "%s%sX-Api-Key: " SECRET "\r\n{\"prompt\":\"" SECRET "\"}\r\n\r\n%sX-Api-Key: " SECRET "\r\n\r\n", begin[i % 4], line[k],
                 k & 1 ? "" : "HTTP/1.1 200 OK\r\n");
        snprintf(sent, sizeof sent, "POST /v1?a=1 HTTP/1.1\r\nContent-Length: 9\r\n%s\rcookie: " SECRET "\r\n\r\n{}", line[k]);
        for (cut = 1; cut < 300; cut += cut < 20 ? 1 : 37) {
            exchange(&rules[i / 16], sent, got, cut, &s, &c);
            assert_null(strstr(td_buf_str(&s.side[0]), SECRET));
            td_buf_str(&s.side[1]);
            if (strstr(s.side[1].data, "X-Api-Key: s") || (i / 16 && strstr(s.side[1].data, SECRET)))
                fail_msg("rules %zu: %s became %s", i / 16, got, s.side[1].data);
            drop(&s);
        }
    }
}

/* Behind such a line chunks may cut the value of a secret header, so that no line holds all of it. */
static void test_sent_values_behind_such_headers(void **state)
{
    static const char *const sent_headers[] = {"X-Api-Key: sesame-Sesame+1234", NULL}, *const line[] = {"\rX: y\r\n", "\r\r\n\r\n"};
    const struct td_redaction rules = {.sent = sent_headers};
    struct td_redact_counts c;
    struct seen s;
    char sent[200], got[400];
    size_t i, cut;

    (void)state;
    for (i = 0; i < 2; i++) {
        snprintf(got, sizeof got, "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n%s\r\na\r\nno: sesame\r\n13\r\n-Sesame+1234 is bad\r\n0\r\n\r\n", line[i]);
        snprintf(sent, sizeof sent, "POST /v1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n%s\r\n6\r\nsesame\r\nc\r\n-Sesame+1234\r\n0\r\n\r\n", line[i]);
        for (cut = 1; cut < 150; cut += cut < 20 ? 1 : 17) {
            exchange(&rules, sent, got, cut, &s, &c);
            assert_null(strcasestr(td_buf_str(&s.side[0]), "sesame"));
            assert_null(strcasestr(td_buf_str(&s.side[1]), "sesame"));
            assert_non_null(strstr(s.side[1].data, "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r"));
            drop(&s);
        }
    }
}

/* A method is any token (RFC 9110, 5.6.2), also in small letters and long: what follows is a request with its body. */
static void test_methods_of_any_kind(void **state)
{
    static const char *const sent_headers[] = {"X-Api-Key: sesame-Sesame+1234", NULL}, *const method[] = {"post", "Post", "VERSION-CONTROL-OF-ALL", "p1!~*"};
    const struct td_redaction rules = {.sent = sent_headers};
    struct td_redact_counts c;
    struct seen s;
    char sent[200];
    size_t i, cut;

    (void)state;
    for (i = 0; i < sizeof method / sizeof *method; i++) {
        snprintf(sent, sizeof sent, "%s /v1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nsesame\r\nc\r\n-Sesame+1234\r\n0\r\n\r\n", method[i]);
        for (cut = 1; cut < 150; cut += cut < 20 ? 1 : 17) {
            exchange(&rules, sent, "HTTP/1.1 204 No\r\n\r\n", cut, &s, &c);
            assert_null(strcasestr(td_buf_str(&s.side[0]), "sesame"));
            assert_non_null(strstr(s.side[0].data, " /v1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"));
            drop(&s);
        }
    }
}

/* td_http ends the headers at a line that begins with NUL: the body behind it is redacted. */
static void test_nul_among_headers(void **state)
{
    static const char *const paths[] = {"prompt", NULL};
    static const char got[] = "HTTP/1.1 200 OK\r\nX-A: 1\r\n\0\r\n{\"prompt\":\"" SECRET "\"}\r\n\r\n";
    const struct td_redaction rules = {.json_paths = paths};
    struct td_redactor *r;
    struct seen s = {0};
    int64_t t = 0;

    (void)state;
    td_buf_init(&s.side[1], 1 << 16);
    assert_int_equal(td_redactor_new(&rules, &r, NULL), TD_OK);
    feed(r, &s, &t, TD_WIRE_RECEIVED, got, sizeof got - 1, 7);
    assert_int_equal(td_redactor_finish(r, collect, &s), TD_OK);
    td_redactor_free(r);
    assert_int_equal(s.side[1].len, sizeof got - 1);
    assert_null(memmem(s.side[1].data, s.side[1].len, SECRET, strlen(SECRET)));
    td_buf_release(&s.side[1]);
}

/* Values that were sent come back in places that no rule is about: names, lines that are none, extensions
 * of chunks, fields of events. A value that is cut off with its stream goes, too. */
static void test_sent_values_anywhere(void **state)
{
    static const char *const sent_headers[] = {"X-Api-Key: sesame/Sesame+1", NULL}, *const paths[] = {"a.b", NULL};
    struct td_redaction rules[] = {{.sent = sent_headers}, {.sent = sent_headers, .json_paths = paths}};
    static const char sent[] = "POST /v1 HTTP/1.1\r\n\r\n",
                      got[] = "HTTP/1.1 200 sesame%2fsesame%2B1\r\nX-sesame/Sesame+1: 1\r\nno colon sesame\\/Sesame+1\r\nContent-Type: text/event-stream\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n"
                              "85;sesame/Sesame+1\r\nevent: sesame/Sesame+1\nsesame/Sesame+1: 1\nid: SESAME/SESAME+1\n: c2VzYW1lL1Nlc2FtZSsx\ndata: \"\\u0073esame\\u002fSesame\\u002B1\"\n\ndata: \"s\r\n"
                              "1a sesame/Sesame+1\r\nesame\\/Sesame&#43;1\"\n\n    \r\n"
                              "0\r\nsesame/Sesame+1: sesame/Sesame+1\r\n\r\n"
                              "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n: sesame\\/Ses";
    struct seen s;
    struct td_redact_counts c;
    size_t at, i;

    (void)state;
    for (i = 0; i < 2; i++)
        for (at = 1; at < sizeof got; at += at < 60 ? 1 : 37) {
            exchange(&rules[i], sent, got, at, &s, &c);
            td_buf_str(&s.side[1]);
            assert_null(strcasestr(s.side[1].data, "esame"));
            assert_null(strstr(s.side[1].data, "c2Vz"));
            assert_null(strstr(s.side[1].data, "Zs2"));
            drop(&s);
        }
}

/* Without text: what is not listed goes, wherever in a message it stands. */
static void test_places_without_text(void **state)
{
    struct td_redaction no_text = {.no_text = true};
    static const char *const got[] = {
        "HTTP/1.1 500 " SECRET "\r\nX-" SECRET ": 1\r\nServer: " SECRET "\r\nno colon " SECRET "\r\n folded " SECRET "\r\n\r\n\"" SECRET "\"",
        "HTTP/" SECRET "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: " SECRET "\nretry: " SECRET "\n" SECRET ": 1\nid: " SECRET "\n: " SECRET
        "\n" SECRET "\ndata: \"" SECRET "\"\ndata:[\"" SECRET "\"]\n\"a: " SECRET "\"\nevent: a\rdata: " SECRET "\n\xef\xbb\xbf" "data: " SECRET "\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" SECRET "\r\n{}\r\n0 " SECRET "\r\nX-Sum: " SECRET "\r\n" SECRET ": 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n{\"choices\":[{\"role\":\"" SECRET "\",\"finish_reason\":\"" SECRET "\",\"stop\":\"" SECRET "\",\"seed\":[\"" SECRET
        "\"],\"id\":\"a " SECRET "\",\"" SECRET "\":{\"model\":\"" SECRET "\"},\"top_logprobs\":[{\"" SECRET "\":-1}],\"logit_bias\":{\"" SECRET "\":1}}]}",
    };
    struct seen s;
    struct td_redact_counts c;

    (void)state;
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        for (size_t cut = 1; cut < 200; cut += cut < 20 ? 1 : 13) {
            exchange(&no_text, SENT, got[i], cut, &s, &c);
            assert_null(memmem(s.side[1].data, s.side[1].len, "s3cr", 4));
            drop(&s);
        }
    exchange(&no_text, SENT, "HTTP/1.1 404 Not Found\r\nServer: uvicorn 1\r\n\r\n{\"error\":{\"code\":404,\"type\":\"NotFoundError\"}}", 7, &s, &c);
    assert_string_equal(td_buf_str(&s.side[1]), "HTTP/1.1 404 Not Found\r\nServer: uvicorn 1\r\n\r\n{\"error\":{\"code\":404,\"type\":\"NotFoundError\"}}");
    drop(&s);
    exchange(&no_text, SENT, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: message_stop\nretry: 300\ndata: [DONE]\n", 7, &s, &c);
    assert_non_null(strstr(td_buf_str(&s.side[1]), "event: message_stop\nretry: 300\ndata: [DONE]\n"));
    drop(&s);
}

/* Headers only: bodies pass byte for byte and at once. */
static void test_default_rules(void **state)
{
    struct seen s;
    struct td_redact_counts c;
    size_t cut;

    (void)state;
    for (cut = 1; cut < 300; cut += 7) {
        exchange(NULL, SENT, GOT_SSE, cut, &s, &c);
        assert_null(strstr(s.side[0].data, "Bearer"));
        assert_non_null(strstr(s.side[0].data, "tell s3cr3t-Paris !"));
        assert_non_null(strstr(s.side[1].data, "[{\"text\":\"s3cr3t-Paris\",\"ids\":\r\n1f;ext=1\r\n[5]"));
        assert_null(strstr(s.side[1].data, "folded"));
        assert_null(strstr(s.side[1].data, "Set-Cookie: s3"));
        assert_true(c.json == 0 && c.unparsed == 0);
        drop(&s);
    }
}

static void test_bodies(void **state)
{
    struct td_redaction no_text = {.no_text = true};
    struct seen s;
    struct td_redact_counts c;
    static const char *const got[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"content\":\"" SECRET "\",\"tokens\":[5]}", /* until close */
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{\"content\":\"" SECRET "\",\"tokens\":[5]}",     /* framing taken off */
        "HTTP/1.1 500 Oh\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\nno " SECRET "!",             /* no JSON */
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nzzzz" SECRET,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"content\":\"" SECRET "\"}\n\ndata: {\"content\":\"" SECRET, /* cut */
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\"s3cr\r\nZZ\r\n" SECRET,                     /* broken chunks */
        "no http at all " SECRET "\r\n" SECRET,
        "HTTP/1.1 200 OK\r\nAuthorization: " SECRET, /* ends within a header */
    };

    (void)state;
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        for (size_t cut = 1; cut < 200; cut += 3) {
            exchange(&no_text, SENT, got[i], cut, &s, &c);
            assert_null(strstr(s.side[1].data, "s3cr"));
            if (i < 2)
                assert_non_null(strstr(s.side[1].data, "{\"content\":\"************\",\"tokens\":[5]}"));
            if (i == 2)
                assert_int_equal(c.unparsed, 16); /* of the answer; the request is JSON */
            drop(&s);
        }
}

/* What is compressed cannot be searched for keys, so no rule has to ask for it. */
static void test_compressed_bodies(void **state)
{
    static const char *const got[][2] = {{"gzip", "****"}, {" br ", "****"}, {"identity, gzip", "****"}, {"", "****"}, {"Identity ", "zzzz"}};
    char text[200];
    struct seen s;
    struct td_redact_counts c;
    size_t i, cut;

    (void)state;
    for (i = 0; i < sizeof got / sizeof *got; i++)
        for (cut = 1; cut < 90; cut += 4) {
            snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: 4\r\n\r\nzzzz", got[i][0]);
            exchange(NULL, SENT, text, cut, &s, &c);
            assert_string_equal(strstr(s.side[1].data, "\r\n\r\n") + 4, got[i][1]);
            drop(&s);
        }
}

/* The line of an exchange whose query holds quotes, as JSON does that a client did not escape. */
static void test_query_with_quotes(void **state)
{
    const struct td_redaction rules[] = {{.no_text = false}, {.no_text = true}};
    char line[200];
    struct td_redactor *r;
    cJSON *json;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "{\"stream\":1,\"path\":\"/v1?a={\\\"b\\\":\\\"" SECRET "\\\"}&api_key=" SECRET "\",\"request\":{},\"x\":1}");
        assert_int_equal(td_redactor_new(&rules[i], &r, NULL), TD_OK);
        td_redactor_exchange(r, line, strlen(line));
        td_redactor_free(r);
        json = cJSON_Parse(line);
        assert_non_null(json);
        assert_non_null(strstr(line, "/v1?"));
        assert_null(strstr(line, "api_key=" SECRET));
        assert_true(!rules[i].no_text || !strstr(line, SECRET));
        cJSON_Delete(json);
    }
}

static void test_over_limit(void **state)
{
    struct td_redaction no_text = {.no_text = true};
    size_t n = TD_REDACT_HOLD_MAX + 100000;
    char *got = malloc(n + 200);
    struct seen s;
    struct td_redact_counts c;
    int head = sprintf(got, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n{\"content\":\"", n);

    (void)state;
    memset(got + head, 'x', n - 14);
    strcpy(got + head + n - 14, "\"}");
    exchange(&no_text, SENT, got, 65536, &s, &c);
    assert_null(memchr(s.side[1].data + head - 12, 'x', n));
    assert_true(c.over_limit > (int64_t)TD_REDACT_HOLD_MAX);
    drop(&s);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_paths), cmocka_unit_test(test_json_no_text), cmocka_unit_test(test_json_bad),
        cmocka_unit_test(test_path_syntax), cmocka_unit_test(test_urls), cmocka_unit_test(test_texts), cmocka_unit_test(test_command_lines), cmocka_unit_test(test_streams_at_every_cut),
        cmocka_unit_test(test_default_rules), cmocka_unit_test(test_sent_headers), cmocka_unit_test(test_sent_values_anywhere),
        cmocka_unit_test(test_headers_that_end_for_some), cmocka_unit_test(test_sent_values_behind_such_headers), cmocka_unit_test(test_methods_of_any_kind),
        cmocka_unit_test(test_nul_among_headers),
        cmocka_unit_test(test_places_without_text), cmocka_unit_test(test_bodies), cmocka_unit_test(test_compressed_bodies), cmocka_unit_test(test_query_with_quotes), cmocka_unit_test(test_over_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
