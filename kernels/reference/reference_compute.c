/* reference_compute.c - from an op to jobs for the GPU, and from their sums to a reference that was checked.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "kernels/ops/gemm_ref.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/reference/reference_cu.h"
#include "kernels/reference/reference_queue.h"
#include "kernels/reference/reference_sample.h"
#include "kernels/reference/reference_times.h"

#define WHOLE_EACH 128                   /* one in so many references is computed again as a whole, */
#define WHOLE_PRODUCTS ((int64_t)1 << 31) /* or so many products of it */

_Static_assert(TD_REFERENCE_UINT8_TOKEN == TD_GPTQ_UINT8_TOKEN && TD_REFERENCE_WEIGHT_BF16 == TD_GPTQ_WEIGHT_BF16 &&
                   TD_REFERENCE_WEIGHT_F16 == TD_GPTQ_WEIGHT_F16 && TD_REFERENCE_ZERO_BF16 == TD_GPTQ_ZERO_BF16 &&
                   TD_REFERENCE_ZERO_F16 == TD_GPTQ_ZERO_F16,
               "the kernels name roundings by the numbers of enum td_gptq_rounding");

/* An op of either kind. */
struct source {
    bool is_gptq;
    struct td_gptq_op gptq;
    struct td_gemm gemm;
    enum td_dtype a_dtype;
    const char *a; int64_t lda;             /* in elements */
};

static int type_of(enum td_dtype dtype)
{
    return dtype == TD_DT_F32 ? TD_REFERENCE_F32 : dtype == TD_DT_BF16 ? TD_REFERENCE_BF16 : TD_REFERENCE_F16;
}

static void part(struct td_reference_job *j, enum td_reference_part p, const void *data, int64_t n, size_t size)
{
    j->part[p] = data;
    j->part_bytes[p] = data ? (size_t)n * size : 0;
}

static int read_gptq(const struct td_op_call *op, struct source *s, struct td_reference_job *j, struct td_error *err)
{
    struct td_gptq_op *x = &s->gptq;
    const int rc = td_gptq_op_of(op, x, err);
    const int64_t pack = 32 / (rc ? 4 : x->bits);

    if (rc)
        return rc;
    s->is_gptq = true;
    s->a = x->a;
    s->a_dtype = x->dtype;
    s->lda = x->lda;
    j->kernel = x->rounding == TD_GPTQ_NONE ? TD_REFERENCE_GPTQ : TD_REFERENCE_GPTQ_ROUNDED;
    j->m = x->m;
    j->n = x->n;
    j->k = x->k;
    j->group_size = x->group_size;
    j->form = TD_REFERENCE_FORM(x->bits, x->zero_offset, type_of(x->dtype), type_of(x->scales_dtype), (int)x->rounding);
    part(j, TD_REFERENCE_W, x->qweight, x->k / pack * x->n, 4);
    part(j, TD_REFERENCE_QZEROS, x->qzeros, x->groups * (x->n / pack), 4);
    part(j, TD_REFERENCE_SCALES, x->scales, x->groups * x->n, td_dtype_size(x->scales_dtype));
    part(j, TD_REFERENCE_G_IDX, x->g_idx, x->k, 4);
    return TD_OK;
}

static int read_gemm(const struct td_op_call *op, struct source *s, struct td_reference_job *j, struct td_error *err)
{
    struct td_gemm *x = &s->gemm;
    const int rc = td_gemm_of(op, x, err);

    if (rc)
        return rc;
    if (x->ldw != x->k)
        return td_fail(err, TD_EUNSUPPORTED, "rows of W lie apart");
    s->a = (const char *)x->a;
    s->a_dtype = x->a_dtype;
    s->lda = x->lda;
    j->kernel = TD_REFERENCE_GEMM;
    j->m = x->m;
    j->n = x->n;
    j->k = x->k;
    j->form = TD_REFERENCE_FORM(4, 0, type_of(x->a_dtype), type_of(x->w_dtype), 0);
    part(j, TD_REFERENCE_W, x->w, x->n * x->k, td_dtype_size(x->w_dtype));
    return TD_OK;
}

/* Rows of one job. 0: it does not take even one. */
static int64_t rows_of_job(const struct source *s, const struct td_reference_job *j)
{
    const int64_t by_a = (int64_t)TD_REFERENCE_A_BYTES / (j->k * (int64_t)td_dtype_size(s->a_dtype)), by_results = TD_REFERENCE_RESULTS / j->n;
    const int64_t least = by_a < by_results ? by_a : by_results;

    return least < TD_REFERENCE_ROWS ? least : TD_REFERENCE_ROWS;
}

/* Put rows i0 to i0 + j->m into the slot. */
static void fill_slot(struct td_reference_slot *slot, const struct source *s, const struct td_reference_job *j, int64_t i0)
{
    const size_t size = td_dtype_size(s->a_dtype), line = (size_t)j->k * size;
    char *a = slot->memory;
    float *scales = (float *)(a + TD_REFERENCE_A_BYTES);
    double *sums = (double *)(scales + TD_REFERENCE_ROWS * 3);
    const bool rounds_a = s->is_gptq && s->gptq.rounding == TD_GPTQ_UINT8_TOKEN;

    for (int64_t i = 0; i < j->m; i++)
        memcpy(a + (size_t)i * line, s->a + (size_t)((i0 + i) * s->lda) * size, line);
    for (int64_t i = 0; rounds_a && i < j->m; i++) {
        const struct td_gptq_row_scale r = td_gptq_op_row_scale(&s->gptq, i0 + i);

        scales[3 * i] = r.scale;
        scales[3 * i + 1] = r.inverse;
        scales[3 * i + 2] = r.finite;
    }
    slot->job = *j;
    slot->job.a = a;
    slot->job.a_bytes = (size_t)j->m * line;
    slot->job.row_scales = rounds_a ? scales : NULL;
    slot->job.staging = sums;
    slot->job.r0 = sums;
    slot->job.r1 = j->kernel == TD_REFERENCE_GPTQ_ROUNDED ? sums + TD_REFERENCE_RESULTS : NULL;
    slot->job.mag = sums + 2 * TD_REFERENCE_RESULTS;
}

static int run_rows(struct td_reference_gpu *g, const struct source *s, const struct td_reference_job *j, int64_t i0, struct td_op_ref *ref,
                    struct td_error *err)
{
    int64_t from_ns = td_clock_mono_ns();
    struct td_reference_slot *slot = td_reference_slot_take(g);
    const size_t bytes = (size_t)(j->m * j->n) * sizeof(double);
    const int64_t at = i0 * j->n;
    int rc;

    if (!slot)
        return td_fail(err, TD_EUNSUPPORTED, "no GPU is ready");
    from_ns = td_reference_spent(TD_TIME_REF_SLOT, from_ns);
    fill_slot(slot, s, j, i0);
    rc = td_reference_slot_run(g, slot, err);
    from_ns = td_reference_spent(TD_TIME_REF_JOB, from_ns);
    if (!rc) {
        memcpy(ref->r0 + at, slot->job.r0, bytes);
        memcpy(ref->mag + at, slot->job.mag, bytes);
        if (slot->job.r1)
            memcpy(ref->r1 + at, slot->job.r1, bytes);
        td_reference_spent(TD_TIME_REF_COPY, from_ns);
    }
    td_reference_slot_put(g, slot);
    return rc;
}

static int compare_whole(const struct source *s, const struct td_op_ref *ref, unsigned number, struct td_error *err)
{
    return s->is_gptq ? td_reference_compare_gptq(&s->gptq, ref, WHOLE_PRODUCTS, number / WHOLE_EACH, err)
                      : td_reference_compare_gemm(&s->gemm, ref, WHOLE_PRODUCTS, number / WHOLE_EACH, err);
}

/* Check what came back, and add what is left to do on the CPU. */
static int finish(const struct source *s, struct td_op_ref *ref, struct td_error *err)
{
    static atomic_uint count;
    const unsigned number = atomic_fetch_add(&count, 1);
    int64_t at = td_clock_mono_ns();
    int rc = s->is_gptq ? td_reference_sample_gptq(&s->gptq, ref, number, err) : td_reference_sample_gemm(&s->gemm, ref, number, err);

    if (rc)
        return rc;
    if (s->is_gptq)
        td_gptq_op_ref_finish(&s->gptq, ref);
    else
        td_gemm_ref_finish(&s->gemm, ref);
    at = td_reference_spent(TD_TIME_REF_SAMPLE, at);
    if (number % WHOLE_EACH)
        return TD_OK;
    rc = compare_whole(s, ref, number, err);
    td_reference_spent(TD_TIME_REF_WHOLE, at);
    return rc;
}

bool td_reference_gpu_takes(const char *kind)
{
    return !strcmp(kind, "gptq_gemm") || !strcmp(kind, "gemm");
}

int td_reference_gpu_compute(struct td_reference_gpu *g, const struct td_op_call *op, uint64_t weights, struct td_op_ref *ref,
                             struct td_error *err)
{
    struct source s = {0};
    struct td_reference_job j = {0}, part_of;
    const bool gptq = !strcmp(op->kind, "gptq_gemm");
    int64_t rows;
    int rc;

    memset(ref, 0, sizeof *ref);
    if (!td_reference_gpu_takes(op->kind))
        return td_fail(err, TD_EUNSUPPORTED, "a %s is computed on the CPU", op->kind);
    if ((rc = gptq ? read_gptq(op, &s, &j, err) : read_gemm(op, &s, &j, err)))
        return rc;
    j.key = weights ^ td_hash64(&j.form, sizeof j.form) ^ td_hash64(j.part_bytes, sizeof j.part_bytes);
    if (!j.m || (rows = rows_of_job(&s, &j)) < 1)
        return td_fail(err, TD_EUNSUPPORTED, "its sizes are for the CPU");
    if ((rc = gptq ? td_gptq_op_ref_new(&s.gptq, ref, err) : td_gemm_ref_new(&s.gemm, ref, err)))
        return rc;
    for (int64_t i = 0; !rc && i < j.m; i += rows) {
        part_of = j;
        part_of.m = j.m - i < rows ? j.m - i : rows;
        rc = run_rows(g, &s, &part_of, i, ref, err);
    }
    if (!rc && (rc = finish(&s, ref, err)) == TD_ECORRUPT)
        td_reference_gpu_distrust(g, err->msg);
    if (rc)
        td_op_ref_release(ref);
    return rc;
}
