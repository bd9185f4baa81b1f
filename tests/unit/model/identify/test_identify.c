/* test_identify.c - weights as a tap sends them, named by their content in a checkpoint, or kept as they came.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "model/checkpoint.h"
#include "model/identify/identify.h"
#include "recorder/tap_client/process_model.h"
#include "tests/unit/tiny_checkpoint.h"

#define LAYER "model.layers.0.mlp.up_proj"

static char root[] = "/tmp/td-identify-XXXXXX";
static struct td_layer_index *layers;

static int setup(void **state)
{
    struct td_error err = {0};

    (void)state;
    return !mkdtemp(root) || tiny_checkpoint_write(root, &(struct tiny_spoil){0}) || td_layer_index_open(root, &layers, &err);
}

static int teardown(void **state)
{
    (void)state;
    td_layer_index_close(layers);
    return td_fs_remove_tree(root, NULL);
}

/* up_proj as td_gptq_gemm is given it. */
struct sent { struct td_weight_set s; struct td_weight_tensor w[4]; struct td_attr attrs[4]; int32_t g_idx[TINY_HIDDEN]; };

static void tensor(struct sent *sent, int i, const char *role, const char *dtype, int64_t d0, int64_t d1, const void *data, size_t bytes)
{
    struct td_weight_tensor *t = &sent->w[i];

    *t = (struct td_weight_tensor){.data = data, .size = bytes};
    t->rec = (struct td_tensor_rec){.ndim = d1 ? 2 : 1, .shape = {d0, d1}, .strides = {d1 ? d1 : 1, d1 ? 1 : 0}, .align = 64};
    strcpy(t->rec.role, role);
    strcpy(t->rec.dtype, dtype);
}

static void send(struct sent *sent)
{
    const struct td_gptq_weight *g = td_checkpoint_find(td_layer_index_checkpoint(layers), LAYER);
    int i;

    assert_non_null(g);
    memset(sent, 0, sizeof *sent);
    for (i = 0; i < TINY_HIDDEN; i++)
        sent->g_idx[i] = i / 32;
    tensor(sent, 0, "qweight", "I32", g->k / 8, g->n, g->qweight, (size_t)(g->k / 8 * g->n * 4));
    tensor(sent, 1, "qzeros", "I32", g->groups, g->n / 8, g->qzeros, (size_t)(g->groups * g->n / 8 * 4));
    tensor(sent, 2, "scales", "F16", g->groups, g->n, g->scales, (size_t)(g->groups * g->n * 2));
    tensor(sent, 3, "g_idx", "I32", g->k, 0, sent->g_idx, sizeof sent->g_idx);
    sent->attrs[0] = (struct td_attr){"n", g->n}, sent->attrs[1] = (struct td_attr){"k", g->k};
    sent->attrs[2] = (struct td_attr){"bits", 4}, sent->attrs[3] = (struct td_attr){"group_size", 32};
    sent->s = (struct td_weight_set){.kind = "gptq_gemm", .layout = "checkpoint", .attrs = sent->attrs, .n_attrs = 4, .sent = sent->w, .n_sent = 4, .layers = layers};
}

static void test_named_by_content(void **state)
{
    struct td_error err = {0};
    struct sent sent;
    char hex[TD_HASH_HEX];
    const cJSON *ref;
    int i;

    (void)state;
    send(&sent);
    assert_int_equal(td_identify_weights(&sent.s, &err), 0);
    assert_int_equal(sent.s.matches, 1);
    assert_string_equal(sent.s.layer, LAYER);
    assert_int_equal(sent.s.n, 4);
    for (i = 0; i < 4; i++) {
        assert_ptr_equal(sent.s.t[i].data, sent.w[i].data);
        assert_int_equal(sent.s.t[i].size, sent.w[i].size);
        assert_string_equal(sent.s.t[i].rec.role, sent.w[i].rec.role);
        assert_int_equal(sent.s.t[i].rec.align, 64);
    }
    ref = sent.s.t[2].rec.ref;
    assert_string_equal(cJSON_GetObjectItem(ref, "checkpoint")->valuestring, root);
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(ref, "tensors"), 0)->valuestring, LAYER ".scales");
    td_hash_hex(td_hash_bytes(sent.w[2].data, sent.w[2].size), hex);
    assert_string_equal(cJSON_GetObjectItem(ref, "hash")->valuestring, hex);
    assert_int_equal(sent.s.n_extra, 1);
    assert_string_equal(sent.s.extra[0].name, "act_order");
    assert_int_equal(sent.s.extra[0].value, 0);
    td_weight_set_release(&sent.s);
}

static void test_other_content(void **state)
{
    struct td_error err = {0};
    struct sent sent;
    uint8_t *other;

    (void)state;
    send(&sent);
    other = malloc(sent.w[0].size);
    memcpy(other, sent.w[0].data, sent.w[0].size);
    other[sent.w[0].size - 1] ^= 1;
    sent.w[0].data = other;
    assert_int_equal(td_identify_weights(&sent.s, &err), 0);
    assert_int_equal(sent.s.matches, 0);
    assert_string_equal(sent.s.layer, "");
    assert_null(sent.s.t[0].rec.ref);
    assert_ptr_equal(sent.s.t[0].data, other);
    td_weight_set_release(&sent.s);
    free(other);

    send(&sent);                      /* rows in another order: another layer, and act-order */
    sent.g_idx[0] = 1;
    assert_int_equal(td_identify_weights(&sent.s, &err), 0);
    assert_int_equal(sent.s.matches, 0);
    assert_int_equal(sent.s.extra[0].value, 1);
    td_weight_set_release(&sent.s);

    send(&sent);                      /* no checkpoint known */
    sent.s.layers = NULL;
    assert_int_equal(td_identify_weights(&sent.s, &err), 0);
    assert_int_equal(sent.s.matches, 0);
    td_weight_set_release(&sent.s);
}

static void test_not_of_the_call(void **state)
{
    struct td_error err = {0};
    struct sent sent;
    int i;

    (void)state;
    for (i = 0; i < 6; i++) {
        send(&sent);
        switch (i) {
        case 0: sent.attrs[0].value *= 2; break;
        case 1: sent.attrs[2].value = 8; break;
        case 2: sent.attrs[3].value = 0; break;
        case 3: sent.w[1].data = NULL; break;
        case 4: strcpy(sent.w[2].rec.dtype, "F32"); break;
        case 5: sent.s.n_sent = 2; break;
        }
        assert_int_equal(td_identify_weights(&sent.s, &err), TD_ECORRUPT);
        td_weight_set_release(&sent.s);
        td_error_clear(&err);
    }
}

/* A kind that no identifier knows. */
static void test_as_sent(void **state)
{
    struct td_error err = {0};
    struct sent sent;

    (void)state;
    send(&sent);
    sent.s.kind = "other_gemm";
    sent.s.name = "blk.7.up";
    sent.w[1].data = NULL;
    assert_int_equal(td_identify_weights(&sent.s, &err), 0);
    assert_string_equal(sent.s.layer, "blk.7.up");
    assert_int_equal(sent.s.matches, 0);
    assert_int_equal(sent.s.n, 4);
    assert_ptr_equal(sent.s.t[0].data, sent.w[0].data);
    assert_null(sent.s.t[1].data);
    assert_int_equal(sent.s.t[1].size, 0);
    td_weight_set_release(&sent.s);
    assert_int_equal(sent.s.n, 0);
}

/* More tensors or attributes than an op has room for are refused by name, and none is dropped. */
static void test_no_room(void **state)
{
    struct td_weight_tensor many[TD_OP_MAX_STORED_WEIGHTS + 1];
    static const char *const kinds[] = {"other_gemm", "ggml_mul_mat"};
    struct td_error err = {0};
    struct td_weight_set s;
    char role[8];
    size_t k;
    int i;

    (void)state;
    memset(many, 0, sizeof many);
    for (k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        s = (struct td_weight_set){.kind = kinds[k], .layout = "", .sent = many,
                                   .n_sent = TD_OP_MAX_STORED_WEIGHTS};
        assert_int_equal(td_identify_weights(&s, &err), 0);
        td_weight_set_release(&s);
        s.n_sent++;
        assert_int_equal(td_identify_weights(&s, &err), TD_ELIMIT);
        assert_non_null(strstr(err.msg, "more tensors than an op has room for"));
        assert_non_null(strstr(err.msg, kinds[k]));
        td_weight_set_release(&s);
        td_error_clear(&err);
        assert_int_equal(td_weight_set_check(&s, &err), 0);
    }
    for (i = 0; i <= TD_OP_MAX_WEIGHT_ATTRS; i++) {
        assert_int_equal(td_weight_set_check(&s, &err), 0);
        snprintf(role, sizeof role, "a%d", i);
        td_weight_set_add_attr(&s, role, i);
    }
    assert_int_equal(td_weight_set_check(&s, &err), TD_ELIMIT);
    assert_non_null(strstr(err.msg, "more attributes than"));
    td_error_clear(&err);
    td_weight_set_release(&s);
    for (i = 0; i <= TD_OP_MAX_STORED_WEIGHTS; i++)
        td_weight_set_add_dense(&s, "w", "F16", 2, 0, malloc(4));
    assert_int_equal(s.n, TD_OP_MAX_STORED_WEIGHTS);
    assert_int_equal(td_weight_set_check(&s, &err), TD_ELIMIT);
    td_weight_set_release(&s);
}

static int released;

static void release(void *p)
{
    released++;
    free(p);
}

static void test_layers(void **state)
{
    struct td_layer_index *l = NULL;
    struct td_error err = {0};
    void **a, **b;

    (void)state;
    assert_int_equal(td_layer_index_open("tests/unit/data/sample.gguf", &l, &err), 0);
    assert_non_null(td_layer_index_gguf(l));
    assert_null(td_layer_index_checkpoint(l));
    assert_string_equal(td_layer_index_path(l), "tests/unit/data/sample.gguf");
    a = td_layer_index_state(l, "a", release);
    b = td_layer_index_state(l, "b", release);
    assert_null(*a);
    assert_true(a != b);
    *a = malloc(1);
    assert_ptr_equal(td_layer_index_state(l, "a", release), a);
    td_layer_index_close(l);
    assert_int_equal(released, 1);
    assert_int_equal(td_layer_index_open("/nonexistent", &l, &err), TD_ENOTFOUND);
    assert_null(l);
}

/* The checkpoint that a server's command line names. */
static void test_model_path(void **state)
{
    static const char *const lines[][2] = {{"--model", "/nonexistent"}, {"--model", NULL}, {"-m", "sample.gguf"}, {"-m", "gguf_make.py"}};
    char path[TD_PATH_MAX], cwd[TD_PATH_MAX], want[TD_PATH_MAX + 64];
    int hold[2];                      /* nothing is ever written: the shell waits */
    size_t i;

    (void)state;
    assert_int_equal(pipe(hold), 0);
    assert_non_null(getcwd(cwd, sizeof cwd));
    for (i = 0; i < sizeof lines / sizeof *lines; i++) {
        pid_t pid = fork();
        bool found = false;
        int tries;

        if (!pid) {
            if (dup2(hold[0], 0) < 0 || chdir("tests/unit/data"))
                _exit(1);
            execl("/bin/sh", "sh", "-c", "read x; :", "sh", lines[i][0], lines[i][1] ? lines[i][1] : root, (char *)NULL);
            _exit(1);
        }
        for (tries = 0; tries < 100 && !found; tries++) { /* until the child is the shell */
            found = client_process_model(pid, path, sizeof path);
            td_clock_sleep_until(td_clock_mono_ns() + (i == 1 || i == 2 ? 20 : 1) * TD_NS_PER_MS);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_int_equal(found, i == 1 || i == 2);
        snprintf(want, sizeof want, "%s/tests/unit/data/sample.gguf", cwd);
        if (found)
            assert_string_equal(path, i == 1 ? root : want);
    }
    close(hold[0]);
    close(hold[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_by_content),
        cmocka_unit_test(test_other_content),
        cmocka_unit_test(test_not_of_the_call),
        cmocka_unit_test(test_as_sent),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_model_path),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
