/* test_seen_outputs.c - which outputs are kept as digests: those that were seen twice alike, but for some of each layer.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "recorder/tap_client/seen_outputs.h"

enum { M = 2, K = 4, N = 3 };

/* An op with input and output made of two numbers. */
struct made { struct tap_op rec; struct client_op op; uint16_t a[M * K], c[M * N]; struct td_tensor_rec w; };

static void set_tensor(struct tap_tensor *t, const char *role, int64_t rows, int64_t cols)
{
    snprintf(t->role, sizeof t->role, "%s", role);
    snprintf(t->dtype, sizeof t->dtype, "F16");
    t->ndim = 2;
    t->shape[0] = rows;
    t->shape[1] = t->strides[0] = cols;
    t->strides[1] = 1;
    t->bytes = (uint64_t)(rows * cols) * 2;
}

static void make(struct made *x, int in, int out)
{
    static const struct { const char *name; int64_t value; } attrs[] = {{"m", M}, {"n", N}, {"k", K}};

    memset(x, 0, sizeof *x);
    snprintf(x->rec.kind, sizeof x->rec.kind, "gptq_gemm");
    snprintf(x->rec.symbol, sizeof x->rec.symbol, "kernel");
    x->rec.n_in = x->rec.n_w = 1;
    for (size_t i = 0; i < 3; i++) {
        snprintf(x->op.attr[i].name, sizeof x->op.attr[i].name, "%s", attrs[i].name);
        x->op.attr[i].value = attrs[i].value;
    }
    x->rec.n_attrs = 3;
    x->op.rec = &x->rec;
    set_tensor(&x->op.tensor[1], "a", M, K);
    set_tensor(&x->op.tensor[2], "c", M, N);
    memset(x->a, in, sizeof x->a);
    memset(x->c, out, sizeof x->c);
    x->op.data[0] = (const uint8_t *)x->a;
    x->op.data[1] = (const uint8_t *)x->c;
    snprintf(x->w.role, sizeof x->w.role, "qweight");
    x->w.blob = (struct td_hash){1, 2};
}

static bool repeats(struct client_outputs *o, struct made *x, const char *layer)
{
    struct td_hash digest = {0, 0};
    const bool is = client_outputs_repeat(o, &x->op, &x->w, 1, layer, &digest);

    if (is)
        assert_true(td_hash_eq(digest, td_hash_bytes(x->c, sizeof x->c)));
    return is;
}

/* Record enough ops of a layer that the judge has its outputs; none of them is a digest. */
static void fill(struct client_outputs *o, const char *layer)
{
    struct made x;

    for (int i = 0; i < CLIENT_OUTPUTS_WHOLE; i++) {
        make(&x, 100 + i, 100 + i);
        client_outputs_rehearse(o, &x.op, &x.w, 1);
        assert_false(repeats(o, &x, layer));
    }
}

static void test_what_repeats(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    make(&x, 1, 2);
    assert_false(repeats(&o, &x, "layer")); /* nothing was rehearsed */
    fill(&o, "layer");
    assert_false(repeats(&o, &x, "layer")); /* it was not seen */
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_true(repeats(&o, &x, "layer"));
    assert_true(repeats(&o, &x, "layer"));
    make(&x, 1, 3);                         /* another output: from now on none of this op is enough */
    assert_false(repeats(&o, &x, "layer"));
    make(&x, 1, 2);
    assert_false(repeats(&o, &x, "layer"));
    assert_int_equal(o.rehearsed, CLIENT_OUTPUTS_WHOLE + 1);
    client_outputs_release(&o);
}

static void test_what_varies_in_the_rehearsal(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o, "layer");
    for (int out = 2; out < 4; out++) {
        make(&x, 1, out);
        client_outputs_rehearse(&o, &x.op, &x.w, 1);
    }
    assert_false(repeats(&o, &x, "layer"));
    make(&x, 1, 2);
    assert_false(repeats(&o, &x, "layer"));
    client_outputs_release(&o);
}

/* Each thing that an op is given tells it from another. */
static void test_what_is_the_same_op(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o, "layer");
    make(&x, 1, 2);
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    x.w.blob.lo++;
    assert_false(repeats(&o, &x, "layer"));
    x.w.blob.lo--;
    x.op.attr[1].value++;
    assert_false(repeats(&o, &x, "layer"));
    x.op.attr[1].value--;
    snprintf(x.rec.symbol, sizeof x.rec.symbol, "other");
    assert_false(repeats(&o, &x, "layer"));
    snprintf(x.rec.symbol, sizeof x.rec.symbol, "kernel");
    snprintf(x.op.tensor[1].dtype, sizeof x.op.tensor[1].dtype, "BF16");
    assert_false(repeats(&o, &x, "layer"));
    snprintf(x.op.tensor[1].dtype, sizeof x.op.tensor[1].dtype, "F16");
    x.a[0]++;
    assert_false(repeats(&o, &x, "layer"));
    x.a[0]--;
    assert_true(repeats(&o, &x, "layer"));
    client_outputs_release(&o);
}

static void test_the_judge_needs_some(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o, "layer 1");
    make(&x, 1, 2);
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_true(repeats(&o, &x, "layer 1"));
    make(&x, 2, 2);
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(repeats(&o, &x, "layer 2")); /* the first of its layer */
    assert_false(repeats(&o, &x, "layer 2")); /* the same again is none more */
    make(&x, 3, 2);
    x.op.attr[0].value = 9;                   /* another class of M */
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(repeats(&o, &x, "layer 1"));
    client_outputs_release(&o);
}

static void test_what_is_never_a_digest(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o, NULL);
    for (int i = 0; i < 5; i++) {
        make(&x, 1, 2);
        if (i == 0)
            x.rec.n_attrs = 2;                /* no product */
        else if (i == 1)
            x.rec.dump_reason = 1;            /* the flight recorder's */
        else if (i == 2)
            x.op.data[0] = NULL;              /* an input that nobody could read */
        else if (i == 3)
            x.op.tensor[2].strides[0] = N + 1; /* rows with gaps */
        else
            x.w.blob = (struct td_hash){0, 0}; /* a weight that nobody knows */
        client_outputs_rehearse(&o, &x.op, &x.w, 1);
        if (repeats(&o, &x, NULL))
            fail_msg("op %d", i);
    }
    client_outputs_release(&o);
}

static void test_many(void **state)
{
    struct client_outputs o = {0};
    struct made x;
    int digests = 0;

    (void)state;
    make(&x, 0, 7);
    for (uint16_t i = 0; i < 5000; i++) {
        x.a[0] = i;
        client_outputs_rehearse(&o, &x.op, &x.w, 1);
    }
    for (uint16_t i = 0; i < 5000; i++) {
        x.a[0] = i;
        digests += repeats(&o, &x, "layer");
    }
    assert_int_equal(digests, 5000 - CLIENT_OUTPUTS_WHOLE);
    assert_false(o.full);
    client_outputs_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_repeats),         cmocka_unit_test(test_what_varies_in_the_rehearsal),
        cmocka_unit_test(test_what_is_the_same_op),  cmocka_unit_test(test_the_judge_needs_some),
        cmocka_unit_test(test_what_is_never_a_digest), cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
