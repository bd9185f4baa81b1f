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

static bool repeats(struct client_outputs *o, struct made *x)
{
    struct td_hash digest = {0, 0};
    const bool is = client_outputs_repeat(o, &x->op, &x->w, 1, &digest);

    if (is)
        assert_true(td_hash_eq(digest, td_hash_bytes(x->c, sizeof x->c)));
    return is;
}

enum { FILL = 20 };

/* Rehearse more ops than the judge needs. */
static void fill(struct client_outputs *o)
{
    struct made x;

    for (int i = 0; i < FILL; i++) {
        make(&x, 100 + i, 100 + i);
        client_outputs_rehearse(o, &x.op, &x.w, 1);
    }
}

/* One of those that the judge does not need; returns how many these are. */
static int find_digest(struct client_outputs *o, struct made *x)
{
    int n = 0, at = 0;

    for (int i = 0; i < FILL; i++) {
        make(x, 100 + i, 100 + i);
        if (repeats(o, x))
            n++, at = i;
    }
    make(x, 100 + at, 100 + at);
    return n;
}

static void test_what_repeats(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    make(&x, 1, 2);
    assert_false(repeats(&o, &x));          /* nothing was rehearsed */
    fill(&o);
    assert_false(repeats(&o, &x));          /* it was not seen */
    assert_int_equal(find_digest(&o, &x), FILL - CLIENT_OUTPUTS_WHOLE);
    assert_true(repeats(&o, &x));
    x.c[0]++;                               /* another output: from now on none of this op is enough */
    assert_false(repeats(&o, &x));
    x.c[0]--;
    assert_false(repeats(&o, &x));
    assert_int_equal(o.rehearsed, FILL);
    client_outputs_release(&o);
}

static void test_what_varies_in_the_rehearsal(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o);
    assert_true(find_digest(&o, &x) > 0);
    x.c[0]++;
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(repeats(&o, &x));
    x.c[0]--;
    assert_false(repeats(&o, &x));
    assert_int_equal(find_digest(&o, &x), FILL - 1 - CLIENT_OUTPUTS_WHOLE); /* it is none of those that are chosen */
    client_outputs_release(&o);
}

/* Two tables that take no other entry: ops and groups that they have are found all the same. */
static void test_what_varies_when_there_is_no_room(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o);
    assert_true(find_digest(&o, &x) > 0);
    o.ops.n = o.groups.n = CLIENT_OUTPUTS_MAX;
    x.c[0]++;
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(o.full);                   /* it was seen before */
    assert_false(o.chosen);
    x.c[0]--;
    assert_false(repeats(&o, &x));          /* it gave two outputs */
    make(&x, 1, 2);
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_true(o.full);
    assert_false(repeats(&o, &x));
    client_outputs_release(&o);
}

/* Each thing that an op is given tells it from another. */
static void test_what_is_the_same_op(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o);
    assert_true(find_digest(&o, &x) > 0);
    x.w.blob.lo++;
    assert_false(repeats(&o, &x));
    x.w.blob.lo--;
    x.op.attr[1].value++;
    assert_false(repeats(&o, &x));
    x.op.attr[1].value--;
    snprintf(x.rec.symbol, sizeof x.rec.symbol, "other");
    assert_false(repeats(&o, &x));
    snprintf(x.rec.symbol, sizeof x.rec.symbol, "kernel");
    snprintf(x.op.tensor[1].dtype, sizeof x.op.tensor[1].dtype, "BF16");
    assert_false(repeats(&o, &x));
    snprintf(x.op.tensor[1].dtype, sizeof x.op.tensor[1].dtype, "F16");
    x.a[0]++;
    assert_false(repeats(&o, &x));
    x.a[0]--;
    assert_true(repeats(&o, &x));
    client_outputs_release(&o);
}

static void test_the_judge_needs_some(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o);
    make(&x, 1, 2);
    x.w.blob.lo++;                          /* another layer's weights */
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(repeats(&o, &x));
    assert_false(repeats(&o, &x));          /* the same again is none more */
    make(&x, 3, 2);
    x.op.attr[0].value = 4;                 /* another octave of M, of the same class */
    client_outputs_rehearse(&o, &x.op, &x.w, 1);
    assert_false(repeats(&o, &x));
    client_outputs_release(&o);
}

/* They come from all that was rehearsed, not from its beginning alone. */
static void test_the_judge_gets_late_ones(void **state)
{
    enum { ALL = 100 };
    struct client_outputs o = {0};
    struct made x;
    int whole[2] = {0, 0};

    (void)state;
    for (int i = 0; i < ALL; i++) {
        make(&x, i, i);
        client_outputs_rehearse(&o, &x.op, &x.w, 1);
    }
    for (int i = 0; i < ALL; i++) {
        make(&x, i, i);
        whole[i >= ALL / 2] += !repeats(&o, &x);
    }
    assert_int_equal(whole[0] + whole[1], CLIENT_OUTPUTS_WHOLE);
    assert_true(whole[0] > 0 && whole[1] > 0);
    client_outputs_release(&o);
}

static void test_what_is_never_a_digest(void **state)
{
    struct client_outputs o = {0};
    struct made x;

    (void)state;
    fill(&o);
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
        if (repeats(&o, &x))
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
        digests += repeats(&o, &x);
    }
    assert_int_equal(digests, 5000 - CLIENT_OUTPUTS_WHOLE);
    assert_false(o.full);
    client_outputs_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_repeats),         cmocka_unit_test(test_what_varies_in_the_rehearsal),
        cmocka_unit_test(test_what_varies_when_there_is_no_room),
        cmocka_unit_test(test_what_is_the_same_op),  cmocka_unit_test(test_the_judge_needs_some),
        cmocka_unit_test(test_the_judge_gets_late_ones),
        cmocka_unit_test(test_what_is_never_a_digest), cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
