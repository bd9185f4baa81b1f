/* test_format_fixture.c - write a recording, read it back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/fixture.h"
#include "format/manifest.h"

static char root[] = "/tmp/td-fixture-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static const char *path(const char *name)
{
    static char out[4][256];
    static int turn;
    char *p = out[turn++ & 3];

    snprintf(p, 256, "%s/%s", root, name);
    return p;
}

/* ---- a small recording with everything in it -------------------------------------------------------------------------- */

static char *copy(const char *s)
{
    return strdup(s);
}

static cJSON *json(const char *text)
{
    return td_json_parse(text, strlen(text), NULL);
}

static struct td_exchange sample_exchange(void)
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

static void check_exchange(const struct td_exchange *x)
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

static void write_all(const char *dir, const char *state)
{
    struct td_error err = {0};
    struct td_writer *w;
    struct td_exchange x = sample_exchange();
    struct td_span span = {3, 0, 2, 17, true};
    struct td_step s = {.step = 5, .t_ns = 6, .how = TD_HOW_EXACT, .spans = &span, .n_spans = 1, .pid = 99};
    uint16_t half[1001];
    struct td_hash h, again;

    assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
    for (int i = 0; i < 1001; i++)
        half[i] = (uint16_t)(0x3C00 + (i * 7919) % 300);
    assert_int_equal(td_writer_blob(w, half, sizeof half, 2, &h), TD_OK);
    assert_int_equal(td_writer_blob(w, half, sizeof half, 2, &again), TD_OK);
    assert_true(td_hash_eq(h, again) && td_writer_has_blob(w, h));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(td_writer_wire(w, &(struct td_wire){i, i % 3, TD_WIRE_NOTE, (const uint8_t *)"{\"a\0b\":1}", 9, false}), TD_OK);
    assert_int_equal(td_writer_commit(w, &err), TD_OK);
    assert_int_equal(td_writer_exchange(w, &x), TD_OK);
    assert_int_equal(td_writer_step(w, &s), TD_OK);
    {
        struct td_tensor_rec in = {.role = "a", .dtype = "F16", .ndim = 2, .shape = {7, 143}, .strides = {143, 1}, .align = 64,
                                   .blob = h, .stored = true};
        struct td_op op = {.op = 4, .step = 5, .pid = 99, .t_ns = 1, .kind = (char *)"gptq_gemm", .in = &in, .n_in = 1, .out = in,
                           .has_out = true, .impl = {.symbol = (char *)"f", .duration_ns = -1}};

        op.attrs = json("{\"m\":7}");
        op.extra = json("{\"new\":1,\"impl\":{\"x\":2},\"in\":{\"a\":{\"y\":3}},\"out\":{\"z\":4}}");
        assert_non_null(op.extra);
        assert_int_equal(td_writer_op(w, &op), TD_OK);
        cJSON_Delete(op.attrs);
        cJSON_Delete(op.extra);
    }
    td_writer_count(w, "ops.seen", 3, 30);
    td_writer_fact_str(w, "server", "kind", "vllm");
    assert_int_equal(td_writer_close(w, state, &err), TD_OK);
    td_exchange_release(&x);
}

static void test_roundtrip(void **state)
{
    const char *dir = path("round");
    struct td_error err = {0};
    struct td_fixture *fx;
    struct td_cursor *c;
    struct td_wire wire;
    struct td_exchange *x;
    struct td_step *s;
    struct td_op *ops;
    struct stat st;
    size_t n, bad, len;
    void *data;
    int rc, count = 0;

    (void)state;
    write_all(dir, "complete");
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(strlen(td_fixture_id(fx)), 32);
    assert_int_equal(td_fixture_ledger(fx, "ops.seen"), 3);
    assert_int_equal(td_fixture_ledger(fx, "blobs.deduplicated"), 1);
    assert_string_equal(td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "kind", ""), "vllm");
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &c, &err), TD_OK);
    while ((rc = td_cursor_wire(c, &wire, &err)) == 1) {
        assert_int_equal(wire.t_ns, count);
        assert_int_equal(wire.len, 9);
        assert_memory_equal(wire.data, "{\"a\0b\":1}", 9);
        count++;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(count, 100);
    td_cursor_close(c);
    assert_int_equal(td_fixture_exchanges(fx, &x, &n, &bad, &err), TD_OK);
    assert_int_equal(n, 1);
    assert_int_equal(bad, 0);
    check_exchange(x);
    td_exchanges_free(x, n);
    assert_int_equal(td_fixture_steps(fx, &s, &n, &bad, &err), TD_OK);
    assert_int_equal(n, 1);
    assert_int_equal(s->spans[0].position, 17);
    assert_true(s->spans[0].decode && s->spans[0].stream == 3 && s->spans[0].n_rows == 2);
    td_steps_free(s, n);
    assert_int_equal(td_fixture_ops(fx, &ops, &n, &bad, &err), TD_OK);
    assert_int_equal(n, 1);
    assert_int_equal(td_json_get_i64(ops->extra, "new", 0), 1);
    assert_int_equal(td_json_get_i64(td_json_get(ops->extra, "impl"), "x", 0), 2);
    assert_int_equal(td_json_get_i64(td_json_get(td_json_get(ops->extra, "in"), "a"), "y", 0), 3);
    assert_int_equal(td_json_get_i64(td_json_get(ops->extra, "out"), "z", 0), 4);
    assert_int_equal(td_op_rec_in(ops, "a")->shape[1], 143);
    assert_int_equal(td_fixture_blob(fx, ops->in[0].blob, &data, &len, &err), TD_OK);
    assert_int_equal(len, 2002);
    assert_int_equal(((uint16_t *)data)[1], 0x3C00 + 7919 % 300);
    free(data);
    td_ops_free(ops, n);
    td_fixture_close(fx);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(path("round/wire.zst"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(td_writer_create(dir, NULL, &(struct td_writer *){NULL}, NULL), TD_EEXIST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
