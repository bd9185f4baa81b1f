/* test_judge.c - the judge on arrays whose right scores are known by hand.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/f16.h"
#include "common/json.h"
#include "replayer/judge.h"
#include "replayer/judge_place.h"
#include "replayer/poison.h"
#include "replayer/reference_batch.h"
#include "tests/unit/kernels/ops/op_case.h"
#include "tests/unit/random_gptq.h"

#define ROWS 17  /* tiles of 8 rows and 32 columns with a rest in both directions */
#define COLS 40

struct sample { double r[ROWS * COLS], mag[ROWS * COLS]; uint16_t c[ROWS * COLS]; struct td_op_ref ref; struct td_tensor out; };

static struct td_judge_limits f16_limits(void)
{
    struct td_judge_limits lim;

    assert_int_equal(td_judge_limits_find("gptq_gemm", TD_DT_F16, &lim, NULL), TD_OK);
    return lim;
}

/* Reference values that f16 holds exactly, so that a right output scores 0. */
static void sample_init(struct sample *s)
{
    int e;

    memset(s, 0, sizeof *s);
    for (e = 0; e < ROWS * COLS; e++) {
        s->r[e] = (e % 13 - 6) * 0.25;
        s->mag[e] = 64;
        s->c[e] = td_f32_to_f16((float)s->r[e]);
    }
    s->ref = (struct td_op_ref){.rows = ROWS, .cols = COLS, .inner = 256, .r0 = s->r, .r1 = s->r, .mag = s->mag};
    s->out = (struct td_tensor){.role = "c", .dtype = TD_DT_F16, .ndim = 2, .shape = {ROWS, COLS}, .strides = {COLS, 1},
                                .size_bytes = sizeof s->c};
}

static struct td_judge_result judge(const struct sample *s, const void *const *images, int n)
{
    struct td_judge_limits lim = f16_limits();
    struct td_judge_result res;
    struct td_error err = {0};

    assert_int_equal(td_judge_output(&s->ref, &s->out, images, n, &lim, &res, &err), TD_OK);
    return res;
}

static struct td_judge_result judge_one(const struct sample *s)
{
    const void *image = s->c;

    return judge(s, &image, 1);
}

static double denom(const struct sample *s, int e)
{
    return 0x1p-11 * fabs(s->r[e]) + 0x1p-24 * 16 * s->mag[e] + 0x1p-25; /* sqrt(256) = 16 */
}

static void exact_is_zero(void **state)
{
    struct sample s;
    struct td_judge_result r;

    (void)state;
    sample_init(&s);
    r = judge_one(&s);
    assert_true(r.score == 0 && r.rel_l2 == 0 && r.max_abs == 0 && r.spread == 0);
    assert_int_equal(r.nan + r.inf + r.unstable, 0);
    assert_int_equal(r.total, ROWS * COLS);
    assert_int_equal(r.zero, r.total - r.ref_nonzero);
}

static void one_wrong_element_is_found(void **state)
{
    struct sample s;
    struct td_judge_result r;
    int e = 9 * COLS + 35;
    double d;

    (void)state;
    sample_init(&s);
    s.c[e] = td_f32_to_f16((float)s.r[e] + 0.5f);
    d = 0.5 / denom(&s, e);
    r = judge_one(&s);
    assert_true(fabs(r.score - d) < 1e-9 * d);
    assert_true(r.max_abs == 0.5);
    assert_int_equal(r.worst_row.i, 9);
    assert_int_equal(r.worst_col.j, 35);
    assert_int_equal(r.worst_tile.i, 8);
    assert_int_equal(r.worst_tile.j, 32);
    assert_true(fabs(r.worst_row.rms - d / sqrt(COLS)) < 1e-6 * d);
    assert_true(fabs(r.worst_col.rms - d / sqrt(ROWS)) < 1e-6 * d);
    assert_true(fabs(r.worst_tile.rms - d / 8) < 1e-6 * d); /* 8 rows x the 8 columns that are left */
}

static void a_bad_column_does_not_hide(void **state)
{
    struct sample s;
    struct td_judge_result r;
    int i;

    (void)state;
    sample_init(&s);
    for (i = 0; i < ROWS * COLS; i++) {
        s.r[i] = 1;
        s.c[i] = td_f32_to_f16(i % COLS == 7 ? 1.01f : 1);
    }
    r = judge_one(&s);
    assert_int_equal(r.worst_col.j, 7);
    assert_true(r.worst_col.rms > 6 * r.worst_row.rms); /* a row holds 39 right elements: sqrt(40) */
}

static void nan_against_a_number_is_infinite(void **state)
{
    struct sample s;
    struct td_judge_result r;

    (void)state;
    sample_init(&s);
    s.c[5] = 0x7e00;
    r = judge_one(&s);
    assert_true(isinf(r.score) && isinf(r.rel_l2) && isinf(r.max_abs) && isinf(r.worst_row.rms));
    assert_int_equal(r.nan, 1);
    assert_int_equal(r.worst_row.i, 0);
    assert_int_equal(r.worst_col.j, 5);
}

static void nan_against_nan_is_counted_only(void **state)
{
    struct sample s;
    struct td_judge_result r;

    (void)state;
    sample_init(&s);
    s.r[5] = s.mag[5] = NAN;
    s.c[5] = 0x7e00;
    s.r[6] = INFINITY;
    s.mag[6] = INFINITY;
    s.c[6] = 0x7c00;
    r = judge_one(&s);
    assert_true(r.score == 0 && r.rel_l2 == 0);
    assert_int_equal(r.nan, 1);
    assert_int_equal(r.inf, 1);
    assert_int_equal(r.ref_nonfinite, 2);
    s.c[5] = 0x3c00; /* a number where NaN is due: the damage was hidden */
    assert_true(isinf(judge_one(&s).score));
}

static void overflow_of_f16_is_right(void **state)
{
    struct sample s;

    (void)state;
    sample_init(&s);
    s.r[3] = 70000;
    s.c[3] = 0x7c00;
    assert_true(judge_one(&s).score == 0);
    s.c[3] = 0xfc00; /* the other sign */
    assert_true(isinf(judge_one(&s).score));
    s.r[3] = 60000; /* fits */
    s.c[3] = 0x7c00;
    assert_true(isinf(judge_one(&s).score));
    s.r[3] = 65519; /* one rounding away from Inf */
    assert_true(judge_one(&s).score == 0);
}

static void underflow_is_no_error(void **state)
{
    struct sample s;

    (void)state;
    sample_init(&s);
    s.r[2] = 1e-8;
    s.mag[2] = 1e-8;
    s.c[2] = 0;
    assert_true(judge_one(&s).score < 1);
}

static void repeats_show_spread(void **state)
{
    struct sample s;
    struct td_judge_result r;
    uint16_t other[ROWS * COLS];
    const void *images[3] = {s.c, other, s.c};

    (void)state;
    sample_init(&s);
    memcpy(other, s.c, sizeof other);
    assert_int_equal(judge(&s, images, 3).unstable, 0);
    other[1] = td_f32_to_f16((float)s.r[1] + 0.25f);
    r = judge(&s, images, 3);
    assert_int_equal(r.unstable, 1);
    assert_int_equal(r.repeats, 3);
    assert_int_equal(r.odd_runs, 1); /* the first and the third run agree */
    assert_int_equal(judge(&s, (const void *[]){other, s.c, s.c}, 3).odd_runs, 1);
    assert_int_equal(judge(&s, (const void *[]){s.c, s.c}, 2).odd_runs, 0);
    assert_true(fabs(r.spread - 0.25 / denom(&s, 1)) < 1e-6 * r.spread);
    assert_true(r.score == 0); /* the score is that of the first run */
    other[2] = 0x7e00;
    assert_true(isinf(judge(&s, images, 3).spread));
}

static void strides_are_followed(void **state)
{
    struct sample s;
    struct td_judge_limits lim = f16_limits();
    struct td_judge_result r;
    struct td_error err = {0};
    uint16_t wide[ROWS * (COLS + 3)];
    const void *image = wide;
    int i;

    (void)state;
    sample_init(&s);
    memset(wide, 0x7e, sizeof wide);
    for (i = 0; i < ROWS; i++)
        memcpy(wide + i * (COLS + 3), s.c + i * COLS, COLS * 2);
    s.out.strides[0] = COLS + 3;
    s.out.size_bytes = sizeof wide;
    assert_int_equal(td_judge_output(&s.ref, &s.out, &image, 1, &lim, &r, &err), TD_OK);
    assert_true(r.score == 0 && r.nan == 0);
    s.out.size_bytes = sizeof s.c; /* the strides now reach past the end */
    assert_int_equal(td_judge_output(&s.ref, &s.out, &image, 1, &lim, &r, &err), TD_EINVAL);
}

static void wrong_shape_is_refused(void **state)
{
    struct sample s;
    struct td_judge_limits lim = f16_limits();
    struct td_judge_result r;
    const void *image = s.c;

    (void)state;
    sample_init(&s);
    s.out.shape[0] = ROWS - 1;
    assert_int_equal(td_judge_output(&s.ref, &s.out, &image, 1, &lim, &r, NULL), TD_EINVAL);
    assert_int_equal(td_judge_limits_find("gptq_gemm", TD_DT_I32, &lim, NULL), TD_EUNSUPPORTED);
}

/* A row that the op does not compute: whatever lies there, in whichever run, says nothing. */
static void unjudged_rows_do_not_count(void **state)
{
    unsigned char unjudged[ROWS] = {[3] = 1, [16] = 1};
    uint16_t again[ROWS * COLS];
    struct sample s;
    struct td_judge_limits lim = f16_limits();
    struct td_judge_result r;
    struct td_judge_place place;
    struct td_poison_found f;
    const void *images[] = {s.c, again};
    int j;

    (void)state;
    sample_init(&s);
    memcpy(again, s.c, sizeof again);
    for (j = 0; j < COLS; j++) {
        s.c[3 * COLS + j] = s.c[16 * COLS + j] = 0x7e00; /* the poison of two runs */
        again[3 * COLS + j] = again[16 * COLS + j] = 0x9155;
    }
    s.ref.unjudged = unjudged;
    r = judge(&s, images, 2);
    assert_true(r.score == 0 && r.nan == 0 && r.unstable == 0 && r.odd_runs == 0 && r.rel_l2 == 0);
    assert_int_equal(r.total, (ROWS - 2) * COLS);
    assert_int_equal(td_judge_equal(&s.ref, &s.out, s.c, again), (ROWS - 2) * COLS);
    td_poison_find(&s.ref, &s.out, images, 2, &f);
    assert_true(!f.unwritten && !f.not_cleared);
    assert_int_equal(td_judge_place_find(&s.ref, &s.out, s.c, &lim, 1, &place, NULL), 0);
    assert_int_equal(place.rows.bad, 0);
    s.ref.unjudged = NULL;
    assert_true(isinf(judge(&s, images, 2).score));
    td_poison_find(&s.ref, &s.out, images, 2, &f);
    assert_int_equal(f.unwritten, 2 * COLS);
}

static void json_names_infinity(void **state)
{
    struct td_judge_result res = {.score = INFINITY, .total = 1, .repeats = 3};
    cJSON *e = td_judge_result_json(&res, NULL), *crash;

    (void)state;
    assert_string_equal(td_json_get_str(e, "score", ""), "Infinity");
    assert_true(isinf(td_json_get_num(e, "score", 0)));
    assert_null(td_json_get(e, "crash"));
    cJSON_Delete(e);
    crash = td_judge_result_json(&(struct td_judge_result){0}, "killed by signal 11");
    assert_string_equal(td_json_get_str(crash, "crash", ""), "killed by signal 11");
    assert_null(td_json_get(crash, "score"));
    cJSON_Delete(crash);
}

/* The kernels' own promise, seen by the judge: right outputs near 1, a column 2 % off far beyond the floor. */
static void real_op_scores(void **state)
{
    const struct random_gptq d = {5, 64, 128, 4, 32, true};
    struct td_judge_limits lim = f16_limits();
    struct td_judge_result r;
    struct td_op_call op;
    struct td_op_ref ref;
    const void *image;
    int i;

    (void)state;
    random_gptq_make(&op, &d, 1, 1);
    assert_int_equal(random_gptq_run(&op, "cpu"), 0);
    assert_int_equal(td_op_kind_find("gptq_gemm")->reference(&op, &ref, NULL), 0);
    image = op.out.data;
    assert_int_equal(td_judge_output(&ref, &op.out, &image, 1, &lim, &r, NULL), 0);
    assert_true(r.score > 0.1 && r.score <= 1);
    for (i = 0; i < 5; i++)
        ((uint16_t *)op.out.data)[i * 64 + 9] = td_f32_to_f16(1.02f * td_f16_to_f32(((uint16_t *)op.out.data)[i * 64 + 9]));
    assert_int_equal(td_judge_output(&ref, &op.out, &image, 1, &lim, &r, NULL), 0);
    assert_true(r.score > lim.floor);
    assert_int_equal(r.worst_col.j, 9);
    td_op_ref_release(&ref);
    random_gptq_free(&op);
}

static void joined_references_are_the_same(void **state)
{
    const struct td_op_kind *kind = td_op_kind_find("gptq_gemm");
    const int64_t rows[3] = {1, 7, 3};
    struct td_op_call ops[3];
    const struct td_op_call *list[3];
    struct td_op_ref refs[3], alone;
    struct td_reference_makers cpu = {0};
    struct td_reference_batch how;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct random_gptq d = {rows[i], 64, 128, 4, 32, true};

        random_gptq_make(&ops[i], &d, 4, (uint64_t)i);
        list[i] = &ops[i];
        assert_true(td_reference_batch_fits(&ops[0], &ops[i]));
    }
    assert_int_equal(td_reference_batch_compute(&cpu, kind, list, 3, 1, "none", refs, &how, NULL),
                     0);
    assert_true(how.joined);
    for (i = 0; i < 3; i++) {
        assert_int_equal(kind->reference(&ops[i], &alone, NULL), 0);
        assert_int_equal(refs[i].rows, rows[i]);
        assert_memory_equal(refs[i].r1, alone.r1, (size_t)rows[i] * 64 * sizeof(double));
        assert_memory_equal(refs[i].mag, alone.mag, (size_t)rows[i] * 64 * sizeof(double));
        td_op_ref_release(&alone);
    }
    ops[1].attrs[3].value = 8; /* other bits: does not fit any more */
    assert_false(td_reference_batch_fits(&ops[0], &ops[1]));
    td_op_ref_release(&how.all);
    for (i = 0; i < 3; i++)
        random_gptq_free(&ops[i]);
}

/* A routing belongs to its own rows: such an op stands alone, also below one that is equal but for A. */
static void routed_products_are_not_joined(void **state)
{
    static const struct moe_form form = {TD_DT_F16, TD_DT_F16, "weight-f16", false, false, false, false, 4, 32, 4, 1, 8};
    struct op_case t;

    (void)state;
    case_moe(&t, &form, 5, 16, 64, 0, false, true);
    assert_false(td_reference_batch_fits(&t.op, &t.op));
    op_case_release(&t);
}

/* Products with weights in blocks: three of one W, one of them strided, below each other; and one that may not stand there. */
static void joined_products_of_blocks_are_the_same(void **state)
{
    const struct td_op_kind *kind = td_op_kind_find("ggml_mul_mat");
    const int64_t rows[3] = {1, 7, 3};
    struct op_case t[3];
    const struct td_op_call *list[3];
    struct td_op_ref refs[3], alone;
    struct td_reference_makers cpu = {0};
    struct td_reference_batch how;
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        case_mul_mat(&t[i], TD_DT_Q4_1, rows[i], 5, 96, (int64_t[]){1, 1, 1, 1}, i == 1 ? 3 : 0, true);
        list[i] = &t[i].op;
        t[i].op.in[1] = t[0].op.in[1];
        assert_true(td_reference_batch_fits(&t[0].op, &t[i].op));
    }
    assert_int_equal(td_reference_batch_compute(&cpu, kind, list, 3, 1, "q8_1", refs, &how, NULL),
                     0);
    assert_true(how.joined);
    for (i = 0; i < 3; i++) {
        assert_int_equal(kind->reference(&t[i].op, &alone, NULL), 0);
        assert_memory_equal(refs[i].r0, alone.r0, (size_t)rows[i] * 5 * sizeof(double));
        assert_memory_equal(refs[i].r1, alone.r1, (size_t)rows[i] * 5 * sizeof(double));
        assert_memory_equal(refs[i].mag, alone.mag, (size_t)rows[i] * 5 * sizeof(double));
        assert_true(refs[i].r1[0] != refs[i].r0[0]);
        td_op_ref_release(&alone);
    }
    td_op_ref_release(&how.all);
    for (i = 0; i < 3; i++)
        op_case_release(&t[i]);
    case_mul_mat(&t[0], TD_DT_Q4_1, 2, 5, 96, (int64_t[]){1, 2, 1, 2}, 0, true);
    assert_false(td_reference_batch_fits(&t[0].op, &t[0].op)); /* rows of several matrices */
    op_case_release(&t[0]);
}

/* A right product of blocks lies far below the floor; one that forgets the last of 48 blocks far above. */
static void real_products_score(void **state)
{
    struct td_judge_limits lim;
    struct td_judge_result r;
    struct op_case t;
    struct td_op_ref ref;
    void *opened, *prepared;
    const void *image;

    (void)state;
    assert_int_equal(td_judge_limits_find("ggml_mul_mat", TD_DT_F32, &lim, NULL), TD_OK);
    case_mul_mat(&t, TD_DT_Q4_1, 4, 64, 1536, (int64_t[]){1, 1, 1, 1}, 0, true);
    assert_int_equal(td_op_kind_find("ggml_mul_mat")->reference(&t.op, &ref, NULL), 0);
    for (int bug = 0; bug < 2; bug++) {
        struct td_op_call op = t.op;
        const struct td_provider *cpu = td_provider_find("cpu");

        for (int64_t i = 0; bug && i < 4 * 32; i++)
            ((float *)op.in[0].data)[i / 32 * 1536 + 1504 + i % 32] = 0;
        assert_int_equal(cpu->open(NULL, &opened, NULL), 0);
        assert_int_equal(cpu->prepare(opened, &op, &prepared, NULL), 0);
        assert_int_equal(cpu->run(opened, prepared, NULL), 0);
        cpu->release(opened, prepared);
        cpu->close(opened);
        image = op.out.data;
        assert_int_equal(td_judge_output(&ref, &op.out, &image, 1, &lim, &r, NULL), 0);
        assert_true(bug ? r.score > 1000 * lim.floor : r.score < 0.1 * lim.floor);
    }
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* ggml's kernels of Q6_K multiply with codes that are 32 too large, and take that off again. Where a huge activation meets a weight of 0,
 * as it does in the first row of real models, what is rounded in between is far above the sum of |A||W|. */
static void codes_with_an_offset_round_more(void **state)
{
    struct td_judge_limits lim;
    struct td_judge_result r;
    struct op_case t;
    struct td_op_ref ref;
    const void *image;
    float *c;

    (void)state;
    assert_int_equal(td_judge_limits_find("ggml_mul_mat", TD_DT_F32, &lim, NULL), TD_OK);
    case_mul_mat(&t, TD_DT_Q6_K, 1, 64, 1536, (int64_t[]){1, 1, 1, 1}, 0, true);
    ((float *)t.op.in[0].data)[5] = 1e6f;
    for (int n = 0; n < 64; n++) {
        uint8_t *b = (uint8_t *)t.op.in[1].data + n * 6 * 210;

        b[5] &= 0xf0;                          /* the code of weight 5: 32, a weight of 0 */
        b[128 + 5] = (uint8_t)((b[128 + 5] & ~3) | 2);
        b[192] = 20;                           /* and the scale of the first 16 */
    }
    assert_int_equal(td_op_kind_find("ggml_mul_mat")->reference(&t.op, &ref, NULL), 0);
    image = c = t.op.out.data;
    for (int n = 0; n < 64; n++) {
        const float off = 32 * 20 * td_f16_to_f32(*(const uint16_t *)(const void *)((uint8_t *)t.op.in[1].data + n * 6 * 210 + 208)) * 1e6f;

        c[n] = (float)(ref.r1[n] + (double)off) - off;
    }
    assert_int_equal(td_judge_output(&ref, &t.op.out, &image, 1, &lim, &r, NULL), 0);
    assert_true(r.score < 0.1 && r.max_abs > 0);
    td_op_ref_release(&ref);
    op_case_release(&t);
}

/* An activation half-way between two codes may become either. One that is not may become one only. */
static void codes_in_doubt_are_both_right(void **state)
{
    static const struct { float x, taken; bool right; } turns[] = {{40.5f, 40.51f, true}, {-40.5f, -40.51f, true}, {40.4f, 40.6f, false}};
    const struct td_provider *cpu = td_provider_find("cpu");
    struct td_judge_limits lim;

    (void)state;
    assert_int_equal(td_judge_limits_find("ggml_mul_mat", TD_DT_F32, &lim, NULL), TD_OK);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        for (int type = 0; type < 2; type++) {
            struct td_judge_result r;
            struct op_case t;
            struct td_op_ref ref;
            void *opened, *prepared;
            const void *image;
            float *a;

            case_mul_mat(&t, type ? TD_DT_Q8_0 : TD_DT_Q4_1, 4, 64, 96, (int64_t[]){1, 1, 1, 1}, 0, true);
            a = t.op.in[0].data;
            a[2 * 96 + 32] = 127; /* row 2: the largest of its block, so that a code is the activation itself */
            a[2 * 96 + 40] = turns[i].x;
            assert_int_equal(td_op_kind_find("ggml_mul_mat")->reference(&t.op, &ref, NULL), 0);
            assert_true((ref.slack != NULL) == turns[i].right);
            for (int64_t e = 0; ref.slack && e < 4 * 64; e++)
                assert_true(e / 64 == 2 || ref.slack[e] == 0);
            a[2 * 96 + 40] = turns[i].taken;
            assert_int_equal(cpu->open(NULL, &opened, NULL), 0);
            assert_int_equal(cpu->prepare(opened, &t.op, &prepared, NULL), 0);
            assert_int_equal(cpu->run(opened, prepared, NULL), 0);
            cpu->release(opened, prepared);
            cpu->close(opened);
            image = t.op.out.data;
            assert_int_equal(td_judge_output(&ref, &t.op.out, &image, 1, &lim, &r, NULL), 0);
            assert_true(turns[i].right ? r.score < 0.3 * lim.floor && r.worst_row.rms < 0.3 : r.score > 100 * lim.floor);
            td_op_ref_release(&ref);
            op_case_release(&t);
        }
}

/* Each element holds the pattern, whatever the size; bytes that are no element hold another; nothing behind is touched. */
static void poison_fills(void **state)
{
    static const enum td_dtype types[] = {TD_DT_F16, TD_DT_F32, TD_DT_F64, TD_DT_I8};
    static const size_t sizes[] = {0, 1, 2, 7, 8, 100, 8191, 8192, 8193, 30001};
    static char image[30064];

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t s = 0; s < 2 * sizeof sizes / sizeof *sizes; s++) {
            const size_t size = sizes[s / 2], w = td_dtype_size(types[t]), end = size / w * w;

            memset(image, 1, sizeof image);
            td_poison_fill(types[t], (int)(s % 2), image, size);
            for (size_t at = w; at < end; at += w)
                assert_memory_equal(image + at, image, w);
            for (size_t at = end; at < size; at++)
                assert_int_equal(image[at], (char)0xa5);
            assert_int_equal(image[size], 1);
            if (types[t] == TD_DT_F16 && size > 1)
                assert_memory_equal(image, s % 2 ? "\x55\x91" : "\x00\x7e", 2);
            if (types[t] == TD_DT_F64 && size > 7)
                assert_memory_equal(image, s % 2 ? "\x00\x00\x00\x00\x00\x54\x45\xbf" : "\x00\x00\x00\x00\x00\x00\xf8\x7f", 8);
        }
}

static void poison_tells(void **state)
{
    struct sample s;
    uint16_t a[ROWS * COLS], b[ROWS * COLS];
    const void *images[2] = {a, b};
    struct td_poison_found f;
    int e;

    (void)state;
    sample_init(&s);
    td_poison_fill(TD_DT_F16, 0, a, sizeof a);
    td_poison_fill(TD_DT_F16, 1, b, sizeof b);
    assert_int_equal(a[0], 0x7e00);
    assert_int_not_equal(b[0], 0x7e00);
    for (e = 2; e < ROWS * COLS; e++) /* the first two were never written */
        a[e] = b[e] = s.c[e];
    a[9] = 0x7e00; /* NaN + x stays NaN; the other pattern + x is a number */
    td_poison_find(&s.ref, &s.out, images, 2, &f);
    assert_int_equal(f.unwritten, 2);
    assert_int_equal(f.not_cleared, 1);
    assert_int_equal(f.between, 0);
    s.ref.rows = s.out.shape[0] = ROWS - 1; /* now the last row lies outside of the output, and was written */
    td_poison_find(&s.ref, &s.out, images, 2, &f);
    assert_int_equal(f.between, COLS); /* the low bytes of these numbers are 0, as those of the pattern */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_is_zero), cmocka_unit_test(one_wrong_element_is_found),
        cmocka_unit_test(a_bad_column_does_not_hide), cmocka_unit_test(nan_against_a_number_is_infinite),
        cmocka_unit_test(nan_against_nan_is_counted_only), cmocka_unit_test(overflow_of_f16_is_right),
        cmocka_unit_test(underflow_is_no_error), cmocka_unit_test(repeats_show_spread), cmocka_unit_test(strides_are_followed),
        cmocka_unit_test(wrong_shape_is_refused), cmocka_unit_test(unjudged_rows_do_not_count), cmocka_unit_test(json_names_infinity), cmocka_unit_test(real_op_scores),
        cmocka_unit_test(joined_references_are_the_same), cmocka_unit_test(routed_products_are_not_joined), cmocka_unit_test(joined_products_of_blocks_are_the_same),
        cmocka_unit_test(real_products_score), cmocka_unit_test(codes_in_doubt_are_both_right), cmocka_unit_test(codes_with_an_offset_round_more),
        cmocka_unit_test(poison_fills), cmocka_unit_test(poison_tells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
