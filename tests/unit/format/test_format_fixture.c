/* test_format_fixture.c - write a recording, read it back.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "common/out_of_memory.h"
#include "format/manifest.h"
#include "tests/unit/format/format_sample.h"

static char root[64];

static int setup(void **state)
{
    (void)state;
    return sample_scratch(root, sizeof root) ? 0 : -1;
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
    write_sample(dir, "complete");
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(strlen(td_fixture_id(fx)), 32);
    assert_int_equal(td_fixture_ledger(fx, "ops.seen"), 3);
    assert_int_equal(td_fixture_ledger(fx, "blobs.deduplicated"), 2);
    assert_string_equal(td_json_get_str(td_json_get(td_fixture_manifest(fx), "server"), "kind", ""), "vllm");
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &c, &err), TD_OK);
    while ((rc = td_cursor_wire(c, &wire, &err)) == 1) {
        assert_int_equal(wire.stream, count / 6);
        assert_int_equal(wire.dir, "200112"[count % 6] - '0');
        assert_null(memmem(wire.data, wire.len, SAMPLE_SECRET, strlen(SAMPLE_SECRET)));
        assert_int_equal(wire.redacted, count % 6 < 3); /* the note's URL, the request line, the header */
        count++;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(count, 12);
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
    assert_int_equal(s->padding, 2);
    assert_null(s->extra);
    td_steps_free(s, n);
    assert_int_equal(td_fixture_ops(fx, &ops, &n, &bad, &err), TD_OK);
    assert_int_equal(n, 2);
    assert_int_equal(td_json_get_i64(ops->extra, "new", 0), 1);
    assert_int_equal(td_json_get_i64(td_json_get(ops->extra, "impl"), "x", 0), 2);
    assert_int_equal(td_json_get_i64(td_json_get(td_json_get(ops->extra, "in"), "a"), "y", 0), 3);
    assert_int_equal(td_json_get_i64(td_json_get(ops->extra, "out"), "z", 0), 4);
    assert_int_equal(td_op_rec_in(ops, "a")->shape[1], 143);
    assert_int_equal(td_fixture_blob(fx, ops->in[0].blob, UINT64_MAX, &data, &len, &err), TD_OK);
    assert_int_equal(len, 2002);
    assert_int_equal(((uint16_t *)data)[1], 0x3C00 + 7919 % 300);
    free(data);
    assert_int_equal(td_fixture_blob(fx, ops->in[1].blob, UINT64_MAX, &data, &len, &err), TD_OK);
    assert_true(len == 2048 && ((int32_t *)data)[511] == 63);
    free(data);
    assert_int_equal(td_fixture_blob(fx, (struct td_hash){1, 2}, UINT64_MAX, &data, &len, &err), TD_ENOTFOUND);
    td_error_clear(&err);
    td_ops_free(ops, n);
    td_fixture_close(fx);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(path("round/wire.zst"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(td_writer_create(dir, NULL, &(struct td_writer *){NULL}, NULL), TD_EEXIST);
}

static void test_refusals(void **state)
{
    static const char later[] = "{\"format\":\"tapedeck-fixture\",\"version\":99}";
    struct td_error err = {0};
    struct td_fixture *fx;

    (void)state;
    assert_int_equal(td_fixture_open(path("nowhere"), &fx, &err), TD_ENOTFOUND);
    td_error_clear(&err);
    assert_int_equal(td_fs_mkdirs(path("empty"), &err), TD_OK);
    assert_int_equal(td_fixture_open(path("empty"), &fx, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "fixture repair"));
    td_error_clear(&err);
    assert_int_equal(td_fs_write_atomic(path("empty/manifest.json"), later, strlen(later), &err), TD_OK);
    assert_int_equal(td_fixture_open(path("empty"), &fx, &err), TD_EVERSION);
    td_error_clear(&err);
    assert_int_equal(td_fs_write_atomic(path("empty/manifest.json"), "{\"format\":", 10, &err), TD_OK);
    assert_int_equal(td_fixture_open(path("empty"), &fx, &err), TD_ECORRUPT);
}

/* Records larger and smaller than a frame, a queue far too small, several threads. */
struct caller { struct td_writer *w; uint32_t stream; };

static void *call(void *arg)
{
    struct caller *c = arg;
    uint8_t data[3000];
    struct td_hash h;

    memset(data, (int)c->stream, sizeof data);
    for (int i = 0; i < 500; i++) {
        memcpy(data, &i, sizeof i);
        if (td_writer_wire(c->w, &(struct td_wire){i, c->stream, TD_WIRE_NOTE, data, sizeof data, false}) ||
            td_writer_blob(c->w, data, sizeof data, 1 + i % 2, &h))
            return c;
        td_writer_count(c->w, "threads", 1, 10);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct td_writer_options opt = {.queue_max_bytes = 20000};
    const char *dir = path("threads");
    struct td_error err = {0};
    struct caller c[4];
    pthread_t t[4];
    struct td_writer *w;
    struct td_fixture *fx;
    struct td_cursor *cur;
    struct td_wire rec;
    int next[4] = {0}, rc, value;
    void *failed;

    (void)state;
    assert_int_equal(td_writer_create(dir, &opt, &w, &err), TD_OK);
    for (uint32_t i = 0; i < 4; i++) {
        c[i] = (struct caller){w, i};
        assert_int_equal(pthread_create(&t[i], NULL, call, &c[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(td_fixture_ledger(fx, "threads"), 2000);
    assert_int_equal(td_fixture_ledger(fx, "blobs.stored"), 2000);
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &cur, &err), TD_OK);
    while ((rc = td_cursor_wire(cur, &rec, &err)) == 1) { /* each stream in its own order */
        memcpy(&value, rec.data, sizeof value);
        assert_int_equal(value, next[rec.stream]++);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(next[0] + next[1] + next[2] + next[3], 2000);
    td_cursor_close(cur);
    td_fixture_close(fx);
}

static off_t pack_bytes(const char *folder)
{
    char name[64];
    struct stat st;

    snprintf(name, sizeof name, "%s/blobs.pack", folder);
    assert_int_equal(stat(path(name), &st), 0);
    return st.st_size;
}

static void put_noise(struct td_writer *w, uint8_t first, size_t n)
{
    uint8_t data[4096];
    size_t i;

    for (i = 0; i < n; i++)
        data[i] = (uint8_t)(first + i * i * 7);
    assert_int_equal(td_writer_blob(w, data, n, 0, &(struct td_hash){0, 0}), TD_OK);
}

/* What comes while the writer is paused is written when it goes on, when the queue is half full, or when a commit is asked for. */
static void test_pause(void **state)
{
    struct td_writer_options opt = {.queue_max_bytes = 40000};
    struct td_error err = {0};
    struct td_writer *w;
    off_t before;
    int i;

    (void)state;
    assert_int_equal(td_writer_create(path("pause"), &opt, &w, &err), TD_OK);
    before = pack_bytes("pause");
    td_writer_pause(w);
    put_noise(w, 1, 4096);
    usleep(100000);
    assert_int_equal(pack_bytes("pause"), before);
    td_writer_resume(w);
    assert_true(pack_bytes("pause") >= before + 4096);
    before = pack_bytes("pause");
    td_writer_pause(w);
    for (i = 2; i < 8; i++)
        put_noise(w, (uint8_t)i, 4096);
    for (i = 0; i < 500 && pack_bytes("pause") == before; i++)
        usleep(10000);
    assert_true(pack_bytes("pause") > before);
    td_writer_resume(w);
    before = pack_bytes("pause");
    td_writer_pause(w);
    put_noise(w, 9, 4096);
    assert_int_equal(td_writer_commit(w, &err), TD_OK);
    assert_true(pack_bytes("pause") > before);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
}

static void test_large(void **state)
{
    static const char head[] = "POST /x HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n";
    size_t n = 4000000, have = 0;
    uint8_t *big = calloc(1, n);
    const char *dir = path("large");
    struct td_error err = {0};
    struct td_writer *w;
    struct td_fixture *fx;
    struct td_cursor *cur;
    struct td_wire rec;
    int rc;

    (void)state;
    for (size_t i = 0; i < n; i++)
        big[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
    assert_int_equal(td_writer_wire(w, &(struct td_wire){1, 0, TD_WIRE_SENT, (const uint8_t *)head, strlen(head), false}), TD_OK);
    assert_int_equal(td_writer_wire(w, &(struct td_wire){1, 0, TD_WIRE_SENT, big, n, false}), TD_OK);
    assert_int_equal(td_writer_wire(w, &(struct td_wire){1, 0, TD_WIRE_NOTE, big, 17 << 20, false}), TD_ELIMIT);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &cur, &err), TD_OK);
    assert_int_equal(td_cursor_wire(cur, &rec, &err), 1);
    while ((rc = td_cursor_wire(cur, &rec, &err)) == 1) {
        assert_memory_equal(rec.data, big + have, rec.len);
        have += rec.len;
    }
    assert_int_equal(rc, 0);
    assert_int_equal(have, n);
    td_cursor_close(cur);
    td_fixture_close(fx);
    free(big);
}

/* Records of all lengths: short ones share an item of the queue, long ones have one of their own. */
static void test_lengths(void **state)
{
    static const size_t LENGTHS[] = {0, 1, 200, 16000, 304, 305, 16300, 16336, 16337, 16384, 16385, 40000, 3};
    enum { N = sizeof LENGTHS / sizeof *LENGTHS, RECORDS = 2000 };
    const char *dir = path("lengths");
    uint8_t *bytes = malloc(RECORDS + 40000);
    struct td_error err = {0};
    struct td_writer *w;
    struct td_fixture *fx;
    struct td_cursor *cur;
    struct td_wire rec;
    int i;

    (void)state;
    for (i = 0; i < RECORDS + 40000; i++)
        bytes[i] = (uint8_t)((unsigned)i * 2654435761u >> 13);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.queue_max_bytes = 2 << 20}, &w, &err), TD_OK);
    for (i = 0; i < RECORDS; i++)
        assert_int_equal(td_writer_wire(w, &(struct td_wire){i, 7, TD_WIRE_RECEIVED, bytes + i, LENGTHS[i * i % N], false}), TD_OK);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(td_cursor_open(fx, TD_STREAM_WIRE, &cur, &err), TD_OK);
    for (i = 0; i < RECORDS; i++) {
        assert_int_equal(td_cursor_wire(cur, &rec, &err), 1);
        assert_int_equal(rec.t_ns, i);
        assert_int_equal(rec.stream, 7);
        assert_int_equal(rec.dir, TD_WIRE_RECEIVED);
        assert_int_equal(rec.len, LENGTHS[i * i % N]);
        assert_memory_equal(rec.data, bytes + i, rec.len);
    }
    assert_int_equal(td_cursor_wire(cur, &rec, &err), 0);
    td_cursor_close(cur);
    td_fixture_close(fx);
    free(bytes);
}

/* A fact that holds a key, and a section that the format needs itself. */
static void test_facts(void **state)
{
    const char *dir = path("facts");
    struct td_error err = {0};
    struct td_writer *w;
    struct td_fixture *fx;
    cJSON *cmd = json("[\"vllm\",\"serve\",\"--api-key\",\"" SAMPLE_SECRET "\",\"--port\",\"1\"]");
    const cJSON *server;

    (void)state;
    assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
    assert_int_equal(td_writer_fact(w, "server", "command", cmd), TD_OK);
    assert_int_equal(td_writer_fact_str(w, "server", "url", "http://u:" SAMPLE_SECRET "@h/?key=" SAMPLE_SECRET), TD_OK);
    assert_int_equal(td_writer_fact_str(w, "files", "x", "y"), TD_EINVAL);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    server = td_json_get(td_fixture_manifest(fx), "server");
    assert_string_equal(cJSON_GetArrayItem(td_json_get(server, "command"), 3)->valuestring, "******************");
    assert_string_equal(cJSON_GetArrayItem(td_json_get(server, "command"), 5)->valuestring, "1");
    assert_null(strstr(td_json_get_str(server, "url", ""), SAMPLE_SECRET));
    td_fixture_close(fx);
    cJSON_Delete(cmd);
}

/* no_text: neither the exchange nor the wire holds the text; ids, times and lengths are as they were. */
static void test_no_text(void **state)
{
    struct td_redaction rules = {.no_text = true};
    struct td_writer_options opt = {.redaction = &rules};
    struct td_exchange x = sample_exchange(), *back;
    const char *dir = path("no-text");
    struct td_error err = {0};
    struct td_writer *w;
    struct td_fixture *fx;
    cJSON *line = NULL;
    struct td_cursor *c;
    struct td_buf b = TD_BUF_INIT(1 << 20);
    size_t n, bad, len;
    int rc;

    (void)state;
    free(x.token_text[0]);
    x.token_text[0] = copy(" " SAMPLE_SECRET);
    cJSON_Delete(x.request);
    x.request = json("{\"prompt\":\"" SAMPLE_SECRET "\\n\\u0000\",\"messages\":[{\"content\":\"" SAMPLE_SECRET "\"}],\"model\":\"m\"}");
    len = strlen(td_json_get_str(x.request, "prompt", ""));
    free(x.path);
    x.path = copy("/v1?key=" SAMPLE_SECRET);
    x.error = copy("bad prompt: " SAMPLE_SECRET);
    x.error_kind = copy("http");
    x.text = realloc(x.text, x.text_len + strlen(SAMPLE_SECRET)); /* bad UTF-8 in it: base64 as well */
    memcpy(x.text + x.text_len, SAMPLE_SECRET, strlen(SAMPLE_SECRET));
    x.text_len += strlen(SAMPLE_SECRET);
    assert_int_equal(td_writer_create(dir, &opt, &w, &err), TD_OK);
    assert_int_equal(td_writer_exchange(w, &x), TD_OK);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    assert_int_equal(td_cursor_open(fx, TD_STREAM_EXCHANGES, &c, &err), TD_OK);
    while ((rc = td_cursor_json(c, &line, &err)) == 1) {
        struct td_jw j;

        td_jw_init(&j, &b, false);
        td_jw_value(&j, NULL, line);
        cJSON_Delete(line);
    }
    td_cursor_close(c);
    assert_true(b.len > 100 && !strstr(b.data, "s3cr3t"));
    assert_int_equal(td_fixture_exchanges(fx, &back, &n, &bad, &err), TD_OK);
    assert_true(n == 1 && !bad);
    assert_int_equal(back->text_len, x.text_len);
    assert_null(memmem(back->text, back->text_len, "s3cr3t", 6));
    assert_string_equal(back->token_text[0], "*******************");
    assert_int_equal(strlen(back->token_text[1]), 2);
    assert_string_equal(back->path, "/v1?**********************");
    assert_int_equal(strlen(back->error), strlen(x.error));
    assert_null(strstr(back->error, "s3cr3t"));
    assert_string_equal(back->error_kind, "http");
    assert_string_equal(td_json_get_str(back->request, "model", ""), "m");
    assert_int_equal(strlen(td_json_get_str(back->request, "prompt", "")), len - 1); /* the NUL counts for one now */
    assert_memory_equal(back->token_ids, x.token_ids, 12);
    assert_int_equal(back->events[1].t_ns, 20);
    td_exchanges_free(back, n);
    td_fixture_close(fx);
    td_exchange_release(&x);
    td_buf_release(&b);
}

/* ---- without memory -------------------------------------------------------------------------------------------------- */

static int until_failure; /* allocations of cJSON until one fails; 0: none will */

/* cJSON loses a value that it had no memory to add to an object: the leak sanitizer need not look. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static void *fails_once(size_t n)
{
    void *p;

    if (until_failure && !--until_failure) {
        td_out_of_memory_note();
        return NULL;
    }
    if (__lsan_disable)
        __lsan_disable();
    p = malloc(n);
    if (__lsan_enable)
        __lsan_enable();
    return p;
}

/* Whichever allocation of the manifest fails: there is none, or a whole one that says failed. Behind all other tests, for what failed in
 * this process is counted. */
static void test_manifest_without_memory(void **state)
{
    cJSON_Hooks hooks = {fails_once, free};
    struct td_error err = {0};
    struct td_writer *w;
    char dir[90], manifest[120];
    int n, rc;

    (void)state;
    for (n = 1; n < 1000 && !until_failure; n++) {
        cJSON *m;

        snprintf(dir, sizeof dir, "%s/memory-%d", root, n);
        snprintf(manifest, sizeof manifest, "%s/%s", dir, TD_MANIFEST_NAME);
        assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
        until_failure = n;
        cJSON_InitHooks(&hooks);
        rc = td_writer_close(w, "complete", &err);
        cJSON_InitHooks(NULL);
        assert_int_equal(rc, TD_ENOMEM);
        td_error_clear(&err);
        if (!td_fs_exists(manifest))
            continue;
        m = td_json_load_member(manifest, 1 << 20, NULL);
        assert_string_equal(td_json_get_str(m, "state", ""), "failed");
        assert_int_equal(cJSON_GetArraySize(td_json_get(m, "files")), TD_FILE_COUNT);
        cJSON_Delete(m);
    }
    assert_true(n > 50 && until_failure);
}

/* Once memory has lacked somewhere, a line may lack a member: none is taken. */
static void test_line_after_lack_of_memory(void **state)
{
    const struct td_exchange x = {.prompt_id = "p"};
    const struct td_step step = {0};
    const struct td_op op = {0};
    struct td_error err = {0};
    struct td_writer *w;
    char dir[90];

    (void)state;
    snprintf(dir, sizeof dir, "%s/line-without-memory", root);
    assert_int_equal(td_writer_create(dir, NULL, &w, &err), TD_OK);
    td_out_of_memory_note();
    assert_int_equal(td_writer_exchange(w, &x), TD_ENOMEM);
    assert_int_equal(td_writer_step(w, &step), TD_ENOMEM);
    assert_int_equal(td_writer_op(w, &op), TD_ENOMEM);
    td_writer_close(w, "complete", &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip), cmocka_unit_test(test_refusals), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_pause), cmocka_unit_test(test_large),
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_facts),
        cmocka_unit_test(test_no_text), cmocka_unit_test(test_manifest_without_memory),
        cmocka_unit_test(test_line_after_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
