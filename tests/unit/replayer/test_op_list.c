/* test_op_list.c - choosing ops: sampling by group, shards, names of shapes; small values of the command line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <stdlib.h>

#include "replayer/op_list.h"
#include "replayer/op_order.h"
#include "wire/send_plan.h"

static char kind[] = "gptq_gemm";

static void add(struct td_op_list *l, int64_t number, int m, int n)
{
    struct td_op op = {.op = number, .kind = kind, .attrs = cJSON_CreateObject()};

    cJSON_AddNumberToObject(op.attrs, "m", m);
    cJSON_AddNumberToObject(op.attrs, "n", n);
    cJSON_AddNumberToObject(op.attrs, "k", 256);
    cJSON_AddNumberToObject(op.attrs, "bits", 4);
    assert_int_equal(td_op_list_add(l, &op, true, NULL), TD_OK);
    cJSON_Delete(op.attrs);
}

static int64_t chosen(const struct td_op_list *l, int32_t group)
{
    int64_t c = 0;
    size_t i;

    for (i = 0; i < l->n; i++)
        c += l->items[i].chosen && l->items[i].group == group;
    return c;
}

static void groups_by_shape_and_m(void **state)
{
    struct td_op_list l = {0};

    (void)state;
    add(&l, 0, 1, 640);
    add(&l, 1, 1, 640);
    add(&l, 2, 3, 640);
    add(&l, 3, 4, 640);
    add(&l, 4, 1, 256);
    assert_int_equal(l.n_groups, 3);
    assert_string_equal(l.groups[0].shape, "N=640 K=256 b4");
    assert_string_equal(td_m_class_name(l.groups[1].m_class), "M=2-8");
    assert_string_equal(td_m_class_name(td_m_class(513)), "M>512");
    assert_int_equal(l.items[0].weights, l.items[2].weights); /* M is not part of the weights */
    assert_true(l.items[0].weights != l.items[4].weights);
    td_op_list_release(&l);
}

/* An op of one element type, rounding or kernel stands for none of another. */
static void groups_by_format(void **state)
{
    struct td_tensor_rec a = {.role = "a", .dtype = "F16"};
    struct td_op op = {.kind = kind, .in = &a, .n_in = 1, .has_out = true, .out = {.dtype = "F16"}};
    struct td_op_list l = {0};

    (void)state;
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    op.act_rounding = (char[]){"none"};
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 1);
    strcpy(op.out.dtype, "BF16");
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 2);
    strcpy(a.dtype, "BF16");
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 3);
    op.act_rounding = (char[]){"q8_1"};
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 4);
    op.impl.symbol = (char[]){"other"};
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 5);
    td_op_list_release(&l);
}

/* Sizes of any length tell shapes apart. */
static void long_shapes_are_groups_of_their_own(void **state)
{
    struct td_op op = {.kind = kind, .out = {.ndim = TD_OP_MAX_DIMS}};
    struct td_op_list l = {0};
    char longest[TD_OP_SHAPE_WORDS];
    int d;

    (void)state;
    for (d = 0; d < TD_OP_MAX_DIMS; d++)
        op.out.shape[d] = 1000000000;
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    op.out.shape[TD_OP_MAX_DIMS - 1]++;
    assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    assert_int_equal(l.n_groups, 2);
    for (d = 0; d < TD_OP_MAX_DIMS; d++)
        op.out.shape[d] = INT64_MAX;
    td_op_shape_words(&op, longest, sizeof longest);
    assert_true(strlen(longest) + TD_OP_MAX_DTYPE < sizeof longest);
    td_op_list_release(&l);
}

/* An op with more inputs than a fixture may hold is not written; those behind it are replayed. */
static void an_op_over_the_limit_does_not_end_the_list(void **state)
{
    char dir[] = "/tmp/td-oplist-XXXXXX", tape[64], command[80];
    struct td_tensor_rec in[65] = {{.role = "a", .dtype = "F16"}};
    struct td_op ops[3] = {{.op = 0, .kind = kind, .in = in, .n_in = 1}, {.op = 1, .kind = kind, .in = in, .n_in = 65}, {.op = 2, .kind = kind, .in = in, .n_in = 1}};
    struct td_writer_options how = {.tool = "record"};
    struct td_replay_options opt = {0};
    struct td_fixture *fx = NULL;
    struct td_writer *w = NULL;
    struct td_op_list l;
    struct td_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(tape, sizeof tape, "%s/tape", dir);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    for (int i = 1; i < 65; i++)
        in[i] = in[0];
    assert_int_equal(td_writer_create(tape, &how, &w, &err), TD_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(td_writer_op(w, &ops[i]), i == 1 ? TD_ELIMIT : TD_OK);
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(tape, &fx, &err), TD_OK);
    opt.shard = (struct td_shard){1, 1};
    assert_int_equal(td_op_list_scan(fx, &opt, &l, &err), TD_OK);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.items[1].op, 2);
    assert_int_equal(l.bad_frames, 0);
    td_op_list_release(&l);
    td_fixture_close(fx);
    assert_int_equal(system(command), 0);
}

static void shapes_name_the_weights(void **state)
{
    struct td_tensor_rec w = {.role = "w", .dtype = "Q4_1"};
    struct td_op op = {.in = &w, .n_in = 1, .out = {.ndim = 3, .shape = {9, 2, 64}}};
    char shape[64];

    (void)state;
    op.attrs = cJSON_CreateObject();
    td_op_shape_words(&op, shape, sizeof shape); /* no GEMM */
    assert_string_equal(shape, "Q4_1 9x2x64");
    op.n_in = 0;
    td_op_shape_words(&op, shape, sizeof shape);
    assert_string_equal(shape, "9x2x64");
    op.n_in = 1;
    cJSON_AddNumberToObject(op.attrs, "n", 576);
    cJSON_AddNumberToObject(op.attrs, "k", 1536);
    td_op_shape_words(&op, shape, sizeof shape);
    assert_string_equal(shape, "Q4_1 N=576 K=1536");
    cJSON_Delete(op.attrs);
}

/* Ops of one layer stand side by side, so that its weights are loaded once: also experts', each call of which has a routing. */
static void a_routing_is_not_part_of_the_weights(void **state)
{
    struct td_tensor_rec in[3] = {{.role = "a"}, {.role = "expert_ids"}, {.role = "qweight"}};
    struct td_op op = {.kind = (char[]){"moe_gemm"}, .in = in, .n_in = 3};
    uint64_t key = td_op_weights_key(&op);

    (void)state;
    in[0].blob.lo = in[1].blob.hi = 7;
    assert_int_equal(td_op_weights_key(&op), key);
    in[2].blob.lo = 7;
    assert_true(td_op_weights_key(&op) != key);
}

static void sample_is_fair(void **state)
{
    struct td_op_list l = {0};
    int i, gap;

    (void)state;
    for (i = 0; i < 1000; i++)
        add(&l, i, 1, 640);          /* many */
    for (i = 0; i < 30; i++)
        add(&l, 1000 + i, 20, 640);  /* few */
    add(&l, 2000, 300, 640);         /* one */
    assert_int_equal(td_op_list_sample(&l, 131, NULL), TD_OK);
    assert_int_equal(chosen(&l, 0), 100);
    assert_int_equal(chosen(&l, 1), 30);
    assert_int_equal(chosen(&l, 2), 1);
    assert_int_equal(l.not_sampled, 900);
    assert_int_equal(l.groups[0].chosen, 100);
    for (i = 0, gap = 0; i < 1000; i++) { /* spread over all, not the first hundred */
        gap = l.items[i].chosen ? 0 : gap + 1;
        assert_true(gap <= 16);
    }
    assert_true(l.items[999].chosen);
    td_op_list_release(&l);
}

/* A GPU is opened for what it can compute. */
static void products_are_those_of_a_gpu(void **state)
{
    struct td_op_list l = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        add(&l, i, 3, 640);
    assert_true(td_op_list_products(&l) == 4 * 3.0 * 640 * 256);
    assert_int_equal(td_op_list_sample(&l, 1, NULL), TD_OK);
    assert_true(td_op_list_products(&l) == 3.0 * 640 * 256);
    strcpy(kind, "moe_gemm");
    add(&l, 4, 3, 640);
    strcpy(kind, "gptq_gemm");
    assert_true(td_op_list_products(&l) == 3.0 * 640 * 256);
    td_op_list_release(&l);
}

static void sample_leaves_no_group_out(void **state)
{
    struct td_op_list l = {0};
    int i;

    (void)state;
    for (i = 0; i < 100; i++)
        add(&l, i, 1, 8 * (i % 10 + 1));
    assert_int_equal(td_op_list_sample(&l, 3, NULL), TD_OK);
    for (i = 0; i < 10; i++)
        assert_int_equal(chosen(&l, i), 1);
    td_op_list_release(&l);
}

/* 8 layers of 100 steps: as many ops of each layer as of another, up to one, in a sample of any size, spread
 * over the steps; and a smaller sample is a part of a larger one. */
static void samples_are_fair_over_layers_and_steps(void **state)
{
    char layer[24];
    struct td_op op = {.kind = kind, .layer = layer, .attrs = cJSON_CreateObject()};
    struct td_op_list l = {0};
    int per_layer[8] = {0}, early = 0, i, k, least, most;

    (void)state;
    for (i = 0; i < 800; i++) {
        op.op = i;
        op.step = i / 8;
        snprintf(layer, sizeof layer, "model.layers.%d", i % 8);
        assert_int_equal(td_op_list_add(&l, &op, true, NULL), TD_OK);
    }
    cJSON_Delete(op.attrs);
    assert_int_equal(td_op_order_make(&l, NULL), TD_OK);
    assert_int_equal(l.order[0], 799);
    for (i = 0; i < 800; i++) {
        assert_int_equal(l.items[l.order[i]].rank, i);
        per_layer[l.order[i] % 8]++;
        early += l.order[i] < 400;
        for (k = 0, least = 800, most = 0; k < 8; k++) {
            least = per_layer[k] < least ? per_layer[k] : least;
            most = per_layer[k] > most ? per_layer[k] : most;
        }
        assert_true(most - least <= 1);
        assert_true(i < 64 || (early * 100 / (i + 1) > 40 && early * 100 / (i + 1) < 60));
    }
    assert_int_equal(td_op_list_keep(&l, (int64_t[]){100}), 700);
    assert_int_equal(td_op_list_keep(&l, (int64_t[]){40}), 60);
    for (i = 0; i < 800; i++)
        assert_int_equal(l.items[l.order[i]].chosen, i < 40);
    td_op_list_release(&l);
}

static void no_maximum_takes_all(void **state)
{
    struct td_op_list l = {0};
    int i;

    (void)state;
    for (i = 0; i < 50; i++)
        add(&l, i, 1, 64);
    assert_int_equal(td_op_list_sample(&l, 0, NULL), TD_OK);
    assert_int_equal(chosen(&l, 0), 50);
    assert_int_equal(td_op_list_sample(&l, 50, NULL), TD_OK);
    assert_int_equal(chosen(&l, 0), 50);
    td_op_list_release(&l);
}

static void shards_cover_once(void **state)
{
    int64_t op, shard;

    (void)state;
    for (op = 0; op < 100; op++) {
        int taken = 0;

        for (shard = 1; shard <= 8; shard++)
            taken += td_shard_has(&(struct td_shard){shard, 8}, op);
        assert_int_equal(taken, 1);
    }
}

static void shard_words(void **state)
{
    static const char *const bad[] = {"", "1", "/", "0/4", "5/4", "1/0", "1/4x", "a/b", "-1/4", "1/"};
    struct td_shard s;
    size_t i;

    (void)state;
    assert_int_equal(td_shard_parse("3/8", &s, NULL), TD_OK);
    assert_true(s.index == 3 && s.of == 8);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(td_shard_parse(bad[i], &s, NULL), TD_EINVAL);
}

static void timing_words(void **state)
{
    static const char *const bad[] = {"", "x", "x0", "x-1", "x2y", "fast", "2"};
    double v;
    size_t i;

    (void)state;
    assert_true(!td_timing_parse("recorded", &v, NULL) && v == 1);
    assert_true(!td_timing_parse("asap", &v, NULL) && v == 0);
    assert_true(!td_timing_parse("x2.5", &v, NULL) && v == 2.5);
    assert_true(!td_timing_parse(NULL, &v, NULL) && v == TD_PLAN_AS_SENT);
    for (i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(td_timing_parse(bad[i], &v, NULL), TD_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_by_shape_and_m), cmocka_unit_test(groups_by_format), cmocka_unit_test(long_shapes_are_groups_of_their_own),
        cmocka_unit_test(an_op_over_the_limit_does_not_end_the_list), cmocka_unit_test(shapes_name_the_weights), cmocka_unit_test(a_routing_is_not_part_of_the_weights),
        cmocka_unit_test(sample_is_fair), cmocka_unit_test(sample_leaves_no_group_out), cmocka_unit_test(products_are_those_of_a_gpu), cmocka_unit_test(samples_are_fair_over_layers_and_steps),
        cmocka_unit_test(no_maximum_takes_all), cmocka_unit_test(shards_cover_once), cmocka_unit_test(shard_words),
        cmocka_unit_test(timing_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
