/* test_k_parts.c - which part of K is named, and when none is.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "differ/k_parts.h"
#include "differ/op_along_k.h"

#define OPS 8
#define PARTS 10

/* Ops of K = 320: the coefficients are `base`, and of parts [from, to) of one family `wrong`, each give or take 0.0001. */
struct world { struct td_judged_op op[OPS]; struct td_judged_ops ops; };

static void start(struct world *w, size_t n, int which, int from, int to, double wrong, double base, double explained)
{
    memset(w, 0, sizeof *w);
    w->ops.op = w->op;
    w->ops.n = n;
    for (size_t i = 0; i < n; i++) {
        struct td_op_along_k *x = calloc(1, sizeof *x);

        x->step = 32;
        x->dof = 100;
        for (int f = 0; f < 2; f++) {
            x->of[f].n = PARTS;
            x->of[f].explained = explained;
            for (int k = 0; k < PARTS; k++) {
                const double off = 1e-4 * ((double)(i * 7 + (size_t)k * 3) - 5 * (double)((i * 7 + (size_t)k * 3) / 5) - 2) / 2;

                x->of[f].est[k] = off + (f == which && k >= from && k < to ? wrong : base);
                x->of[f].error[k] = f == which ? 1e-4 : 1e-1;
            }
        }
        w->op[i] = (struct td_judged_op){.kind = "gptq_gemm", .k = 320, .result = TD_RESULT_WORSE, .along_k = x};
    }
}

static void says(struct world *w, const char *want)
{
    struct td_buf words = TD_BUF_INIT(1000);

    td_k_parts_add_words(&w->ops, &words);
    assert_string_equal(words.len ? td_buf_str(&words) : "", want);
    td_buf_release(&words);
    for (size_t i = 0; i < w->ops.n; i++)
        free(w->op[i].along_k);
}

static void the_part_that_stands_out_is_named(void **state)
{
    struct world w;

    (void)state;
    start(&w, OPS, 0, 4, 8, -1, 0, 1);
    says(&w, "K 128..255: -100 % [-100, -100]");
    start(&w, 1, 0, 9, 10, 0.001, 0, 0.9); /* one op: by its own errors; the last part is the rest of K */
    says(&w, "K 288..319: +0.1 % [+0.0576, +0.142]");
    start(&w, OPS, 1, 3, 4, -1, 0, 1);
    says(&w, "K = 24..31 mod 128: -100 % [-100, -100]");
}

static void two_parts_are_counted(void **state)
{
    struct world w;

    (void)state;
    start(&w, OPS, 0, 1, 2, -1, 0, 1);
    for (int i = 0; i < OPS; i++)
        w.op[i].along_k->of[0].est[5] = 0.5;
    says(&w, "K 32..63: -100 % [-100, -100], and 1 more part of K");
}

static void nothing_is_named_without_a_reason(void **state)
{
    struct world w;

    (void)state;
    start(&w, OPS, 0, 0, 0, 0, 0, 1);
    says(&w, ""); /* no part is off */
    start(&w, OPS, 0, 0, 0, 0, 0.01, 1);
    says(&w, ""); /* all of them are: a bias of whole outputs */
    start(&w, OPS, 0, 4, 8, -1, 0, 0.3);
    says(&w, ""); /* it does not explain the errors */
    for (int small = 1; small >= 0; small--) { /* too small to matter, however sure */
        start(&w, OPS, 0, 0, 0, 0, 0, 1);
        for (int i = 0; i < OPS; i++)
            for (int k = 0; k < PARTS; k++) {
                w.op[i].along_k->of[0].est[k] = k == 4 ? 1e-4 * (small ? 1.9 : 2.1) : 0;
                w.op[i].along_k->of[0].error[k] = 1e-6;
            }
        says(&w, small ? "" : "K 128..159: +0.021 % [+0.0209, +0.0211]");
    }
    start(&w, OPS, 0, 4, 8, -1, 0, 1);
    for (int i = 0; i < OPS; i++)
        for (int k = 4; k < 8; k++)
            w.op[i].along_k->of[0].est[k] = i % 2 ? -1 : 0.9;
    says(&w, ""); /* each op is sure of it, and they contradict each other */
    start(&w, OPS, 0, 4, 8, -1, 0, 1);
    for (int i = 0; i < OPS; i++)
        w.op[i].result = TD_RESULT_OK;
    says(&w, ""); /* nothing is bad */
}

/* Each op has a shape of its own but the last three: theirs is named. With a pass over all ops for each shape this takes minutes. */
static void of_very_many_shapes_the_one_with_most_ops_is_asked(void **state)
{
    enum { MANY = 200000 };
    struct td_judged_op *op = calloc(MANY, sizeof *op);
    const struct td_judged_ops ops = {.op = op, .n = MANY};
    struct td_buf words = TD_BUF_INIT(1000);
    struct world w;

    (void)state;
    assert_non_null(op);
    start(&w, 3, 0, 4, 8, -1, 0, 1);
    for (int i = 0; i < MANY; i++) {
        op[i] = w.op[i % 3];
        op[i].k = i < MANY - 3 ? 1000 + (int64_t)i * 7919 % MANY : 320;
    }
    td_k_parts_add_words(&ops, &words);
    assert_string_equal(td_buf_str(&words), "K 128..255: -100 % [-100, -100]");
    td_buf_release(&words);
    for (int i = 0; i < 3; i++)
        free(w.op[i].along_k);
    free(op);
}

static struct td_op_along_k *read_text(const char *text)
{
    cJSON *j = cJSON_Parse(text);
    struct td_op_along_k *x = td_op_along_k_read(j);

    cJSON_Delete(j);
    return x;
}

static void what_a_replay_wrote_is_read(void **state)
{
    struct td_op_along_k *x = read_text("{\"step\":64,\"dof\":88,\"explained\":[0.75,0.5],\"pieces\":[[-1,0.01],[0.5,0.02]],\"classes\":[[0.25,1]]}");

    (void)state;
    assert_non_null(x);
    assert_true(x->step == 64 && x->dof == 88 && x->of[0].n == 2 && x->of[1].n == 1);
    assert_true(x->of[0].est[0] == -1 && x->of[0].error[1] == 0.02 && x->of[0].explained == 0.75 && x->of[1].est[0] == 0.25);
    free(x);
    assert_null(read_text("null"));
    assert_null(read_text("{\"step\":0,\"dof\":88}"));
    assert_null(read_text("{\"step\":64,\"dof\":88,\"pieces\":[[1,-1]]}"));
    assert_null(read_text("{\"step\":64,\"dof\":88,\"pieces\":[[1e999,1]]}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_part_that_stands_out_is_named), cmocka_unit_test(two_parts_are_counted),
                                       cmocka_unit_test(nothing_is_named_without_a_reason),
                                       cmocka_unit_test(of_very_many_shapes_the_one_with_most_ops_is_asked), cmocka_unit_test(what_a_replay_wrote_is_read)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
