/* moe_gemm_kind.c - ops of kind "moe_gemm": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Expert after expert, a strip of its columns is dequantised and meets the rows of A that were routed
 * to it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/ops/gptq_any_ref.h"
#include "kernels/ops/moe_gemm_op.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/rowdot.h"

#define STRIP 16

/* One allocation each of doubles and of slots; most: the slots of the busiest expert. */
struct work {
    int64_t most, *first;
    int32_t *slot;
    double *a;                        /* [most, k] */
    double *w0, *w1;                  /* [STRIP, k]; the same where nothing is rounded */
    double *r0, *r1, *mag;            /* [most] */
};

static int check_moe_gemm(const struct td_op_call *op, struct td_error *err)
{
    struct td_moe_op x;

    return td_moe_op_of(op, &x, err);
}

static void release_work(struct work *w)
{
    free(w->first);
    free(w->slot);
    free(w->a);
}

static int make_work(const struct td_moe_op *x, struct work *w, struct td_error *err)
{
    const int64_t k = x->first.k;
    size_t doubles;

    memset(w, 0, sizeof *w);
    w->first = malloc((size_t)(x->experts + 1) * sizeof *w->first);
    w->slot = malloc((size_t)(x->slots + 1) * sizeof *w->slot);
    if (!w->first || !w->slot)
        return td_fail(err, TD_ENOMEM, "moe_gemm: out of memory for %lld slots", (long long)x->slots);
    td_moe_sort_slots(x, w->first, w->slot);
    for (int64_t e = 0; e < x->experts; e++)
        w->most = w->first[e + 1] - w->first[e] > w->most ? w->first[e + 1] - w->first[e] : w->most;
    doubles = (size_t)w->most * (size_t)(k + 3) + (size_t)k * 2 * STRIP;
    if (td_memory_room(doubles * sizeof *w->a, "the reference of a moe_gemm", err))
        return TD_ENOMEM;
    if (!(w->a = malloc((doubles + 1) * sizeof *w->a)))
        return td_fail(err, TD_ENOMEM, "moe_gemm: out of memory for the reference");
    w->w0 = w->a + w->most * k;
    w->w1 = x->first.rounding == TD_GPTQ_NONE ? w->w0 : w->w0 + STRIP * k;
    w->r0 = w->w0 + 2 * STRIP * k;
    w->r1 = w->r0 + w->most;
    w->mag = w->r1 + w->most;
    return 0;
}

/* Column n of the slots of expert e, out of the sums in w, into the reference. */
static void finish_column(const struct td_moe_op *x, const struct work *w, int64_t e, int64_t n, struct td_op_ref *ref)
{
    const double bias = td_moe_bias(x, e, n);

    for (int64_t i = 0; i < w->first[e + 1] - w->first[e]; i++) {
        const int32_t slot = w->slot[w->first[e] + i];
        const double exact = td_moe_factor(x, slot), rounded = td_moe_factor_rounded(x, slot);
        const int64_t at = slot * x->first.n + n;

        ref->r0[at] = (w->r0[i] + bias) * exact;
        ref->mag[at] = (w->mag[i] + fabs(bias)) * fabs(rounded);
        if (ref->slack)
            ref->slack[at] = td_op_rounding_error(x->first.dtype, w->r1[i]) * fabs(rounded);
        if (ref->r1 != ref->r0)
            ref->r1[at] = (w->r1[i] + bias) * rounded;
    }
}

static void multiply_expert(const struct td_moe_op *x, const struct work *w, int64_t e, struct td_op_ref *ref)
{
    const struct td_gptq_op o = td_moe_expert(x, e);
    const int64_t count = w->first[e + 1] - w->first[e];

    for (int64_t i = 0; i < count; i++)
        td_gptq_op_row(&o, w->slot[w->first[e] + i] / x->top_k, w->a + i * o.k, w->a + i * o.k);
    for (int64_t n0 = 0; count && n0 < o.n; n0 += STRIP) {
        const int64_t cols = o.n - n0 < STRIP ? o.n - n0 : STRIP;

        td_gptq_op_columns(&o, n0, cols, w->w0, w->w1);
        for (int64_t i = 0; i < cols; i++) {
            td_rowdot(&(struct td_rowdot){o.k, count, w->w0 + i * o.k, w->w1 + i * o.k, w->a, w->a, w->r0, w->r1, w->mag, 1});
            finish_column(x, w, e, n0 + i, ref);
        }
    }
}

/* Rows of C that no block computes have no right answer. */
static void mark_unjudged(const struct td_moe_op *x, const struct work *w, struct td_op_ref *ref)
{
    memset(ref->unjudged, 1, (size_t)x->slots);
    for (int64_t i = 0; i < w->first[x->experts]; i++)
        ref->unjudged[w->slot[i]] = 0;
    for (int64_t at = 0; at < x->slots * x->first.n; at++)
        if (ref->unjudged[at / x->first.n])
            ref->r0[at] = ref->r1[at] = ref->mag[at] = 0;
}

static int compute_moe_gemm_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct td_moe_op x;
    struct work w = {0};
    bool own_r1;
    int rc;

    memset(ref, 0, sizeof *ref);
    if ((rc = td_moe_op_of(op, &x, err)))
        return rc;
    own_r1 = x.first.rounding != TD_GPTQ_NONE || (x.mul_topk_weights && x.round_topk_weights);
    if ((rc = td_op_ref_new(ref, x.slots, x.first.n, x.first.k, own_r1, err)))
        return rc;
    ref->unjudged = malloc((size_t)x.slots + 1);
    if (x.first.bias_after)
        rc = td_op_ref_new_slack(ref, err);
    if (!rc)
        rc = ref->unjudged ? make_work(&x, &w, err) : td_fail(err, TD_ENOMEM, "moe_gemm: out of memory for the reference");
    for (int64_t e = 0; !rc && e < x.experts; e++)
        multiply_expert(&x, &w, e, ref);
    if (!rc)
        mark_unjudged(&x, &w, ref);
    else
        td_op_ref_release(ref);
    release_work(&w);
    return rc;
}

const struct td_op_kind td_moe_gemm_kind = {"moe_gemm", check_moe_gemm, compute_moe_gemm_reference};
