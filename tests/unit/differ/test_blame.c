/* test_blame.c - the rule that separates bad ops from good ones, and the place of the first bad one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differ/blame.h"

/* A server's day: four projections of two layers at several M. bad() decides. */
struct shape { const char *part; int64_t n, k, bits, group, act; };
static const struct shape SHAPES[] = {
    {"q_proj", 256, 256, 4, 128, 0}, {"gate_proj", 640, 256, 4, 128, 0}, {"down_proj", 256, 640, 4, 128, 0}, {"o_proj", 256, 256, 4, 128, 1}};
static const int64_t MS[] = {1, 2, 6, 8, 20, 50, 51, 64, 130};

typedef bool bad_fn(const struct shape *s, int64_t m, int layer);

static void set_attr(struct td_judged_op *x, const char *name, int64_t v)
{
    x->attr = realloc(x->attr, ((size_t)x->n_attrs + 1) * sizeof *x->attr);
    assert_non_null(x->attr);
    x->attr[x->n_attrs].name = name;
    x->attr[x->n_attrs++].value = v;
}

static void make(struct td_judged_ops *set, bad_fn *bad)
{
    static char layers[8][64];
    size_t s, m;
    int layer;

    memset(set, 0, sizeof *set);
    set->op = calloc(4 * 9 * 2, sizeof *set->op);
    for (layer = 0; layer < 2; layer++)
        for (m = 0; m < 9; m++)
            for (s = 0; s < 4; s++) {
                struct td_judged_op *x = &set->op[set->n];
                char *name = layers[layer * 4 + (int)s];

                snprintf(name, 64, "model.layers.%d.%s", layer, SHAPES[s].part);
                x->op = (int64_t)(m * 8 + (size_t)layer * 4 + s); /* order of execution: M by M */
                x->step = (int64_t)m;
                x->kind = "gptq_gemm";
                x->layer = name;
                x->status = TD_OP_OK;
                x->m = MS[m];
                set_attr(x, "m", MS[m]);
                set_attr(x, "n", SHAPES[s].n);
                set_attr(x, "k", SHAPES[s].k);
                set_attr(x, "bits", SHAPES[s].bits);
                set_attr(x, "group_size", SHAPES[s].group);
                set_attr(x, "act_order", SHAPES[s].act);
                x->result = bad(&SHAPES[s], MS[m], layer) ? TD_RESULT_WORSE : TD_RESULT_OK;
                set->n++;
            }
}

static void expect(bad_fn *bad, const char *text)
{
    struct td_judged_ops set;
    struct td_blame b;

    make(&set, bad);
    assert_true(td_blame_ops(&set, &b));
    if (strcmp(b.text, text) != 0)
        printf("expected \"%s\", got \"%s\" (bad %zu/%zu, good %zu/%zu)\n", text, b.text, b.rule.bad_hit, b.bad, b.rule.good_hit, b.good);
    assert_string_equal(b.text, text);
    td_judged_ops_release(&set);
}

static bool small_m(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m <= 50; }
static bool one_row(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m == 1; }
static bool rows(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m > 1; }
static bool act(const struct shape *s, int64_t m, int l) { (void)m; (void)l; return s->act; }
static bool long_k(const struct shape *s, int64_t m, int l) { (void)m; (void)l; return s->k == 640; }
static bool wide_and_many(const struct shape *s, int64_t m, int l) { (void)l; return s->n == 640 && m > 8; }
static bool odd_rows(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m % 8 != 0; }
static bool row_tail(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m % 4 != 0; }
static bool half_tail(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m % 4 >= 2; }
static bool last_of_tile(const struct shape *s, int64_t m, int l) { (void)s; (void)l; return m == 51 || m == 1; }
static bool one_layer(const struct shape *s, int64_t m, int l) { (void)m; return l == 1 && strcmp(s->part, "q_proj") == 0; }

static void test_patterns_of_real_bugs(void **state)
{
    (void)state;
    expect(small_m, "M <= 50");
    expect(one_row, "M = 1");
    expect(rows, "M >= 2");
    expect(act, "act_order = 1");
    expect(long_k, "K = 640");
    expect(wide_and_many, "M >= 20 (next below: 8) and N = 640");
    expect(odd_rows, "M % 8 != 0");
    expect(row_tail, "M % 4 != 0");
    expect(half_tail, "M % 4 >= 2");
    expect(last_of_tile, "M % 2 != 0"); /* of equal remainders the smallest */
    expect(one_layer, "layer = model.layers.1.q_proj");
}

static void test_rules_that_say_the_same_are_named(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;

    (void)state;
    make(&set, long_k); /* K = 640 is down_proj, and only down_proj */
    assert_true(td_blame_ops(&set, &b));
    assert_true(b.n_same >= 1);
    assert_true(b.rule.bad_hit == b.bad && b.rule.good_hit == 0);
    td_judged_ops_release(&set);
}

/* "M != 1" beside "M >= 2" is the same condition, said twice. */
static void test_one_condition_is_said_once(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;

    (void)state;
    make(&set, rows);
    assert_true(td_blame_ops(&set, &b));
    assert_string_equal(b.text, "M >= 2");
    assert_int_equal(b.n_same, 0);
    td_judged_ops_release(&set);
    make(&set, wide_and_many);
    assert_true(td_blame_ops(&set, &b));
    for (int i = 0; i < b.n_same; i++)
        assert_null(strstr(b.same_text[i], "N = 640"));
    td_judged_ops_release(&set);
}

/* The best rule over M alone, where ops of a bad size are bad. */
static struct td_rule best_over_m(const int64_t (*sizes)[2], int n)
{
    struct td_blame_row r[8];
    struct td_rule best, same[TD_BLAME_SAME];
    int i, n_same;

    memset(r, 0, sizeof r);
    for (i = 0; i < n; i++) {
        r[i].value[1] = sizes[i][0];
        r[i].bad = sizes[i][1] ? 4 : 0;
        r[i].good = sizes[i][1] ? 0 : 4;
    }
    assert_int_equal(td_blame_find(r, (size_t)n, 2, &best, same, &n_same), 0);
    assert_int_equal(n_same, 0);
    assert_int_equal(best.n_terms, 1);
    return best;
}

/* A limit or a size is plainer than a remainder, and a remainder than all sizes but one. */
static void test_remainders_stand_between(void **state)
{
    static const int64_t above[][2] = {{4, 0}, {8, 0}, {9, 1}, {11, 1}}, one[][2] = {{4, 0}, {7, 1}, {8, 0}},
                         but[][2] = {{1, 1}, {28, 0}, {93, 1}};

    (void)state;
    assert_int_equal(best_over_m(above, 4).term[0].rel, TD_MORE_THAN);
    assert_int_equal(best_over_m(one, 3).term[0].rel, TD_IS);
    assert_int_equal(best_over_m(but, 3).term[0].rel, TD_NOT_MULTIPLE_OF);
    assert_int_equal(best_over_m(but, 3).term[0].value, 2);
}

static bool nearly_chance(const struct shape *s, int64_t m, int l) { return (m + s->n / 64 + s->act + l) % 5 > (m >= 8 ? 0 : 2); }
static bool one_op(const struct shape *s, int64_t m, int l) { return one_layer(s, m, l) && m == 64; }

/* A rule is offered where it separates, and where enough ops stand on either side of it. */
static void test_a_rule_needs_evidence(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;

    (void)state;
    make(&set, nearly_chance);         /* as elements that differ from run to run */
    assert_true(td_blame_ops(&set, &b));
    assert_string_equal(b.text, "every op");
    assert_int_equal(b.n_same, 0);
    assert_int_equal(b.rule.bad_hit, b.bad);
    assert_int_equal(b.rule.good_hit, b.good);
    td_judged_ops_release(&set);
    make(&set, one_op);                /* one bad op of 72 is named by many rules */
    assert_true(td_blame_ops(&set, &b));
    assert_string_equal(b.text, "every op");
    td_judged_ops_release(&set);
}

static bool none(const struct shape *s, int64_t m, int l) { (void)s; (void)m; (void)l; return false; }
static bool all(const struct shape *s, int64_t m, int l) { (void)s; (void)m; (void)l; return true; }

static void test_nothing_and_everything(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;

    (void)state;
    make(&set, none);
    assert_false(td_blame_ops(&set, &b));
    td_judged_ops_release(&set);
    make(&set, all);
    assert_true(td_blame_ops(&set, &b));
    assert_int_equal(b.good, 0);
    assert_string_equal(b.text, "every op");
    td_judged_ops_release(&set);
}

static void test_first_in_order_of_execution(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;
    struct td_span spans[2] = {{7, 0, 4, 0, false}, {9, 4, 2, 30, true}};
    struct td_step step = {.step = 2, .how = TD_HOW_EXACT, .spans = spans, .n_spans = 2};
    /* in any order */
    struct td_exchange xs[2] = {{.stream = 9, .prompt_id = "long-1", .repeat = 3}, {.stream = 7, .prompt_id = "short-1"}};

    (void)state;
    make(&set, long_k);
    set.op[0].step = 99; /* a later record of an earlier step does not matter: order is the step's */
    for (size_t i = 0; i < set.n; i++)
        if (set.op[i].m < 6)
            set.op[i].result = TD_RESULT_OK;
    assert_true(td_blame_ops(&set, &b));
    assert_int_equal(b.first->m, 6);
    assert_string_equal(b.first->layer, "model.layers.0.down_proj");
    ((struct td_judged_op *)(uintptr_t)b.first)->candidate.present = true;
    ((struct td_judged_op *)(uintptr_t)b.first)->candidate.row_at = 5; /* the second span's second row */
    td_blame_place(&b, &step, 1, xs, 2);
    assert_string_equal(b.prompt_id, "long-1");
    assert_int_equal(b.repeat, 3);
    assert_int_equal(b.position, 31);
    assert_true(b.decode && !b.inferred);

    assert_true(td_blame_ops(&set, &b)); /* the same, inferred: which rows are whose is not known */
    step.how = TD_HOW_INFERRED;
    spans[0].first_row = spans[1].first_row = -1;
    td_blame_place(&b, &step, 1, xs, 2);
    assert_string_equal(b.prompt_id, "");
    assert_true(b.inferred);
    assert_int_equal(b.n_sharing, 2);
    assert_string_equal(b.among[0], "short-1");
    assert_string_equal(b.among[1], "long-1");

    assert_true(td_blame_ops(&set, &b)); /* the last row, of six, is padding: nobody's */
    step.padding = spans[1].n_rows = 1;
    td_blame_place(&b, &step, 1, xs, 2);
    assert_true(b.padding);
    assert_int_equal(b.n_sharing, 0);
    ((struct td_judged_op *)(uintptr_t)b.first)->candidate.row_at = 4;
    assert_true(td_blame_ops(&set, &b));
    td_blame_place(&b, &step, 1, xs, 2);
    assert_false(b.padding);
    assert_int_equal(b.n_sharing, 2);
    ((struct td_judged_op *)(uintptr_t)b.first)->candidate.row_at = 5;
    assert_true(td_blame_ops(&set, &b));
    step.padding = 2;                 /* this op has not all rows of the step */
    td_blame_place(&b, &step, 1, xs, 2);
    assert_false(b.padding);
    step.padding = 0;
    spans[1].n_rows = 2;

    xs[1].prompt_id = "long-1";       /* two repeats of one prompt are said once */
    assert_true(td_blame_ops(&set, &b));
    td_blame_place(&b, &step, 1, xs, 2);
    assert_int_equal(b.n_sharing, 2);
    assert_int_equal(b.n_among, 1);
    xs[1].prompt_id = "short-1";

    assert_true(td_blame_ops(&set, &b)); /* one alone, at a position that is not known */
    step.n_spans = 1;
    spans[0] = (struct td_span){9, 0, 6, -1, false};
    td_blame_place(&b, &step, 1, xs, 2);
    assert_string_equal(b.prompt_id, "long-1");
    assert_int_equal(b.position, -1);

    assert_true(td_blame_ops(&set, &b)); /* a last layer that computes only the rows which give a token: its row is not the step's */
    spans[0] = (struct td_span){9, 0, 600, 0, false};
    td_blame_place(&b, &step, 1, xs, 2);
    assert_string_equal(b.prompt_id, "long-1");
    assert_int_equal(b.position, -1);
    step.n_spans = 2;
    spans[1] = (struct td_span){7, 600, 1, 5, true};
    assert_true(td_blame_ops(&set, &b));
    td_blame_place(&b, &step, 1, xs, 2);
    assert_string_equal(b.prompt_id, "");
    assert_int_equal(b.n_among, 2);

    assert_true(td_blame_ops(&set, &b)); /* whatever a damaged file says of rows and positions, no sum overflows */
    step.n_spans = 1;
    spans[0] = (struct td_span){9, INT32_MAX, INT32_MAX, INT32_MAX, true};
    td_blame_place(&b, &step, 1, xs, 2);
    assert_int_equal(b.position, -1);
    spans[0] = (struct td_span){9, 0, 6, INT32_MAX, true};
    td_blame_place(&b, &step, 1, xs, 2);
    assert_int_equal(b.position, -1);
    td_judged_ops_release(&set);
}

/* ---- llama.cpp's day: weights of several formats, and products of F16 views whose N grows with the context ---------- */

struct product { const char *weights, *layer; int64_t n, k; };
static const struct product PRODUCTS[] = {{"Q4_1", "blk.0.attn_q.weight", 576, 576}, {"Q4_1", "blk.0.attn_k.weight", 192, 576},
    {"Q4_1", "blk.0.ffn_up.weight", 1536, 576}, {"Q4_1", "blk.0.ffn_down.weight", 576, 1536}, {"Q8_0", "output.weight", 49152, 576},
    {"F16", NULL, 32, 64}, {"F16", NULL, 64, 96}, {"Q4_K", "blk.1.ffn_up.weight", 1536, 512}};

typedef bool bad_product(const struct product *p, int64_t m);

static void make_products(struct td_judged_ops *set, bad_product *bad)
{
    static const int64_t ms[] = {1, 2, 4, 9};

    memset(set, 0, sizeof *set);
    set->op = calloc(4 * 8, sizeof *set->op);
    for (size_t m = 0; m < 4; m++)
        for (size_t p = 0; p < 8; p++) {
            struct td_judged_op *x = &set->op[set->n++];

            x->op = x->step = (int64_t)set->n;
            x->kind = "ggml_mul_mat";
            x->layer = PRODUCTS[p].layer;
            x->weights = PRODUCTS[p].weights;
            x->status = TD_OP_OK;
            set_attr(x, "m", ms[m]);
            set_attr(x, "n", PRODUCTS[p].n);
            set_attr(x, "k", PRODUCTS[p].k);
            x->result = bad(&PRODUCTS[p], ms[m]) ? TD_RESULT_WORSE : TD_RESULT_OK;
        }
}

static struct td_blame blame_products(bad_product *bad)
{
    struct td_judged_ops set;
    struct td_blame b;

    make_products(&set, bad);
    assert_true(td_blame_ops(&set, &b));
    assert_true(b.rule.bad_hit == b.bad && b.rule.good_hit == 0);
    td_judged_ops_release(&set);
    return b;
}

static bool q4_1_tail(const struct product *p, int64_t m) { (void)m; return !strcmp(p->weights, "Q4_1") && p->k / 32 % 4; }
static bool any_tail(const struct product *p, int64_t m) { (void)m; return p->weights[0] == 'Q' && p->k % 128; }
static bool all_q4_1(const struct product *p, int64_t m) { (void)m; return !strcmp(p->weights, "Q4_1"); }
static bool q4_1_rows(const struct product *p, int64_t m) { return !strcmp(p->weights, "Q4_1") && m > 1; }

static void test_blocks_of_ggml(void **state)
{
    struct td_blame b;

    (void)state;
    b = blame_products(q4_1_tail); /* a forgotten loop over the blocks that are left */
    assert_string_equal(b.text, "W = Q4_1 and K/32 % 4 != 0");
    assert_int_equal(b.n_same, TD_BLAME_SAME);
    assert_string_equal(b.same_text[0], "K = 576 and W = Q4_1"); /* the other honest reading of these ops */
    b = blame_products(any_tail);
    assert_string_equal(b.text, "K/32 % 4 != 0");
    b = blame_products(all_q4_1);
    assert_string_equal(b.text, "W = Q4_1");
    b = blame_products(q4_1_rows);
    assert_string_equal(b.text, "M >= 2 and W = Q4_1");
}

/* Any number of layers' names are told apart. */
static void test_many_names(void **state)
{
    struct td_op op = {.kind = (char[]){"gptq_gemm"}, .out = {.dtype = "F16"}, .has_out = true};
    struct td_judged_ops set = {0};
    struct td_blame b;
    char layer[40];
    int i;

    (void)state;
    op.layer = layer;
    for (i = 0; i < 4116; i++) {
        bool bad = i >= 4108;

        snprintf(layer, sizeof layer, i < 4100 ? "L%d.x_proj" : bad ? "Z.bad_proj" : "Z.good_proj", i);
        op.op = i;
        assert_int_equal(td_judged_ops_add(&set, "x", &op, NULL), 0);
        set.op[i].status = TD_OP_OK;
        set.op[i].result = bad ? TD_RESULT_WORSE : TD_RESULT_OK;
    }
    assert_true(td_blame_ops(&set, &b));
    assert_non_null(strstr(b.text, "bad_proj"));
    assert_int_equal(b.rule.bad_hit, 8);
    assert_int_equal(b.rule.good_hit, 0);
    assert_int_equal(b.unseen, 0);
    assert_int_equal(b.untried, 2 * (4102 - 128)); /* layers, each = and != */
    td_judged_ops_release(&set);
}

/* Four layers of four products each, and a head that has no number. */
static const char *blame_layers(const char *format, bool (*bad)(int layer, int part))
{
    static char names[17][64], text[200];
    static const char *const PARTS[] = {"q_proj", "o_proj", "up_proj", "down_proj"};
    struct td_judged_ops set = {.op = calloc(17 * 4, sizeof *set.op)};
    struct td_blame b;
    int i;

    assert_non_null(set.op);
    for (i = 0; i < 17 * 4; i++) {
        const int layer = i < 64 ? i / 16 : -1, part = i / 4 % 4;
        struct td_judged_op *x = &set.op[set.n++];

        if (layer < 0)
            snprintf(names[16], 64, "lm_head");
        else
            snprintf(names[i / 4], 64, format, layer, PARTS[part]);
        x->op = x->step = i;
        x->kind = "gptq_gemm";
        x->layer = names[i / 4];
        x->status = TD_OP_OK;
        set_attr(x, "m", 1 + i % 4);
        x->result = bad(layer, part) ? TD_RESULT_WORSE : TD_RESULT_OK;
    }
    assert_true(td_blame_ops(&set, &b));
    strcpy(text, b.text);
    td_judged_ops_release(&set);
    return text;
}

static bool third_layer(int layer, int part) { (void)part; return layer == 2; }
static bool third_but_one(int layer, int part) { return layer == 2 && part; }
static bool first_layers(int layer, int part) { (void)part; return layer == 0 || layer == 1; }
static bool last_layers(int layer, int part) { (void)part; return layer >= 1; }
static bool head_alone(int layer, int part) { (void)part; return layer < 0; }

static void test_numbers_of_layers(void **state)
{
    (void)state;
    assert_string_equal(blame_layers("model.layers.%d.mlp.%s", third_layer), "layer = 2");
    assert_string_equal(blame_layers("blk.%d.%s.weight", third_layer), "layer = 2");
    assert_string_equal(blame_layers("model.layers.%d.experts.7.%s", third_layer), "layer = 2");
    assert_string_equal(blame_layers("%2$s-%1$d", third_layer), "layer = 2");
    assert_string_equal(blame_layers("%d.%s", third_layer), "layer = 2");
    assert_string_equal(blame_layers("model.layers.%d.mlp.%s", third_but_one), "layer != q_proj and layer = 2");
    assert_string_equal(blame_layers("model.layers.%d.mlp.%s", first_layers), "layer <= 1");
    assert_string_equal(blame_layers("model.layers.%d.mlp.%s", last_layers), "layer >= 1");
    assert_string_equal(blame_layers("model.layers.%d.mlp.%s", head_alone), "layer = lm_head");
    assert_string_equal(blame_layers("model.layer%d.mlp.%s", third_layer), "every op"); /* no part of it is a number */
    assert_string_equal(blame_layers("model.layers.%dx.mlp.%s", third_layer), "every op");
}

/* Terms beyond those that are tried are counted, whichever limit they pass. */
static void test_untried_terms(void **state)
{
    enum { N = 140 };
    static struct td_blame_row rows[N];
    struct td_rule best, same[TD_BLAME_SAME];
    int i, n_same;

    (void)state;
    for (i = 0; i < N; i++) {
        rows[i].value[2] = i % 100;  /* bits */
        rows[i].bad = i == N - 1;
        rows[i].good = i != N - 1;
    }
    assert_int_equal(td_blame_find(rows, N, 3, &best, same, &n_same), 0);
    for (i = 0; i < N; i++)
        rows[i].value[2] = i;
    assert_int_equal(td_blame_find(rows, N, 3, &best, same, &n_same), 4 * (N - 128));
    for (i = 0; i < N; i++)            /* 396 terms of each; 600 are tried */
        rows[i].value[2] = rows[i].value[3] = i % 100;
    assert_int_equal(td_blame_find(rows, N, 4, &best, same, &n_same), 2 * 396 - 600);
}

static void test_shapes_name_the_weights(void **state)
{
    struct td_tensor_rec w = {.role = "w", .dtype = "Q4_1"};
    struct td_op op = {.in = &w, .n_in = 1, .out = {.ndim = 3, .shape = {9, 2, 64}}, .has_out = true};
    struct td_judged_ops set = {0};

    (void)state;
    op.attrs = cJSON_CreateObject();
    cJSON_AddNumberToObject(op.attrs, "n", 576);
    cJSON_AddNumberToObject(op.attrs, "k", 1536);
    assert_int_equal(td_judged_ops_add(&set, "x", &op, NULL), 0);
    assert_string_equal(set.op[0].weights, "Q4_1");
    assert_string_equal(set.op[0].shape, "Q4_1 576x1536");
    cJSON_Delete(op.attrs);
    op.attrs = NULL;
    op.n_in = 0; /* no GEMM: the sizes of its output */
    assert_int_equal(td_judged_ops_add(&set, "x", &op, NULL), 0);
    assert_null(set.op[1].weights);
    assert_string_equal(set.op[1].shape, "9x2x64");
    td_judged_ops_release(&set);
}

/* A bug that depends on the data: no rule is clean, and the text must not claim one. */
static void test_no_clean_rule(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;
    size_t i;

    (void)state;
    make(&set, none);
    for (i = 0; i < set.n; i += 7)
        set.op[i].result = TD_RESULT_WORSE;
    assert_true(td_blame_ops(&set, &b));
    assert_true(b.rule.bad_hit < b.bad || b.rule.good_hit > 0);
    td_judged_ops_release(&set);
}

/* Biased in one column of four at all M: only of those with many ops it is known. */
static void ops_that_nobody_knows_are_left_out(void **state)
{
    struct td_judged_ops set;
    struct td_blame b;
    size_t i;

    (void)state;
    make(&set, wide_and_many);
    for (i = 0; i < set.n; i++) {
        set.op[i].bias = set.op[i].result == TD_RESULT_WORSE ? (const struct td_bias_finding *)&set : NULL;
        set.op[i].bias_unsure = set.op[i].m <= 8;
    }
    assert_true(td_blame_ops(&set, &b));
    assert_string_equal(b.text, "N = 640"); /* without them: N = 640 and M >= 20 */
    assert_int_equal(b.unsure, 32);
    assert_int_equal(b.bad + b.good + b.unsure, set.n);
    for (i = 0; i < set.n; i++)
        if (set.op[i].result == TD_RESULT_WORSE)
            break;
    set.op[i].bias = NULL; /* one is bad for another reason: all of the others are good */
    assert_true(td_blame_ops(&set, &b));
    assert_int_equal(b.unsure, 0);
    assert_int_equal(b.bad + b.good, set.n);
    td_judged_ops_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns_of_real_bugs),
        cmocka_unit_test(test_rules_that_say_the_same_are_named),
        cmocka_unit_test(test_one_condition_is_said_once),
        cmocka_unit_test(test_remainders_stand_between),
        cmocka_unit_test(test_a_rule_needs_evidence),
        cmocka_unit_test(test_nothing_and_everything),
        cmocka_unit_test(test_first_in_order_of_execution),
        cmocka_unit_test(test_blocks_of_ggml),
        cmocka_unit_test(test_many_names), cmocka_unit_test(test_numbers_of_layers), cmocka_unit_test(test_shapes_name_the_weights),
        cmocka_unit_test(test_untried_terms),
        cmocka_unit_test(ops_that_nobody_knows_are_left_out),
        cmocka_unit_test(test_no_clean_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
