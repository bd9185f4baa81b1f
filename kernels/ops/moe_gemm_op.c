/* moe_gemm_op.c - what a recorded "moe_gemm" means: its roles, its rules, its routing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/moe_gemm_op.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/ops/op_check.h"

/* ---- sizes ----------------------------------------------------------------------------------- */

static int read_sizes(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err)
{
    int64_t multiply, rounded;
    int rc = td_gptq_op_read_sizes(op, &x->first, err);

    if (rc || (rc = td_op_check_attr(op, "experts", 1, INT64_MIN, &x->experts, err)) ||
        (rc = td_op_check_attr(op, "top_k", 1, INT64_MIN, &x->top_k, err)) ||
        (rc = td_op_check_attr(op, "block_size", 1, INT64_MIN, &x->block_size, err)) ||
        (rc = td_op_check_attr(op, "mul_topk_weights", 0, 0, &multiply, err)) ||
        (rc = td_op_check_attr(op, "round_topk_weights", 0, 0, &rounded, err)))
        return rc;
    x->mul_topk_weights = multiply != 0;
    x->round_topk_weights = rounded != 0;
    x->slots = x->first.m * x->top_k; /* both fit 31 bits */
    if (x->slots > INT32_MAX || x->experts > TD_MOE_MAX_EXPERTS || x->block_size > TD_MOE_MAX_BLOCK)
        return td_fail(err, TD_EINVAL,
                       "%s: %lld slots, %lld experts, blocks of %lld are more than an op can have",
                       op->kind, (long long)x->slots, (long long)x->experts, (long long)x->block_size);
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Check an input of one matrix or vector for each expert, dense, as one matrix of all their rows.
 *   want : of one expert; its dimensions come behind the experts' */
static int check_stack(const struct td_op_call *op, const struct td_moe_op *x,
                       const struct td_op_expect *want, const void **data, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, want->role);
    const int64_t rows = want->ndim == 2 ? want->d0 : 1, cols = want->ndim == 2 ? want->d1 : want->d0;
    struct td_tensor flat;
    int rc;

    if (!t)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" is missing", op->kind, want->role);
    if (t->ndim != want->ndim + 1 || t->shape[0] != x->experts || t->shape[1] != want->d0 ||
        (want->ndim == 2 && t->shape[2] != cols))
        return td_fail(err, TD_EINVAL,
                       "%s: tensor \"%s\" is not one of [%lld, %lld] for each of %lld experts",
                       op->kind, want->role, (long long)rows, (long long)cols, (long long)x->experts);
    if (t->strides[want->ndim] != 1 || t->strides[want->ndim - 1] != cols ||
        t->strides[0] != rows * cols)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\": its strides do not describe dense rows",
                       op->kind, want->role);
    flat = *t;
    flat.ndim = 2;
    flat.shape[0] = x->experts * rows; /* 12 and 31 bits */
    flat.shape[1] = cols;
    flat.strides[0] = cols;
    flat.strides[1] = 1;
    rc = td_op_check_tensor(op, &flat,
                            &(struct td_op_expect){want->role, want->dtypes, 2, flat.shape[0], cols},
                            NULL, err);
    if (!rc && !flat.data)
        rc = td_fail(err, TD_EINVAL, "%s: tensor \"%s\" has no data", op->kind, want->role);
    *data = flat.data;
    return rc;
}

/* Check an input that counts as one row of numbers, of whatever shape. *n becomes how many there
 * are. */
static int check_row(const struct td_op_call *op, const char *role, enum td_dtype dtype, int64_t *n,
                     const void **data, struct td_error *err)
{
    const struct td_tensor *t = td_op_in(op, role);
    struct td_tensor flat;
    int rc;

    if (!t)
        return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" is missing", op->kind, role);
    *n = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] < 0 || t->strides[d] != *n || __builtin_mul_overflow(*n, t->shape[d], n) ||
            *n > INT32_MAX)
            return td_fail(err, TD_EINVAL, "%s: tensor \"%s\" is not a dense row of numbers", op->kind, role);
    }
    flat = *t;
    flat.ndim = 1;
    flat.shape[0] = *n;
    flat.strides[0] = 1;
    rc = td_op_check_tensor(op, &flat, &(struct td_op_expect){role, TD_DT_BIT(dtype), 1, *n, 1}, NULL, err);
    if (!rc && !flat.data && *n)
        rc = td_fail(err, TD_EINVAL, "%s: tensor \"%s\" has no data", op->kind, role);
    *data = flat.data;
    return rc;
}

static int read_weights(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err)
{
    const unsigned words = TD_DT_BIT(TD_DT_I32) | TD_DT_BIT(TD_DT_U32);
    const int64_t k = x->first.k, n = x->first.n, groups = x->first.groups, pack = 32 / x->first.bits;
    const void *qweight, *qzeros, *g_idx = NULL, *bias;
    int rc;

    x->bias = td_op_in(op, "bias");
    if ((rc = check_stack(op, x, &(struct td_op_expect){"qweight", words, 2, k / pack, n}, &qweight, err)) ||
        (rc = check_stack(op, x, &(struct td_op_expect){"qzeros", words, 2, groups, n / pack}, &qzeros, err)) ||
        (rc = check_stack(op, x, &(struct td_op_expect){"scales", TD_DT_FLOATS, 2, groups, n},
                          &x->first.scales, err)) ||
        (x->bias && (rc = check_stack(op, x, &(struct td_op_expect){"bias", TD_DT_FLOATS, 1, n, 1}, &bias, err))))
        return rc;
    if (td_op_attr(op, "act_order", 0) || td_op_in(op, "g_idx"))
        if ((rc = check_stack(op, x, &(struct td_op_expect){"g_idx", TD_DT_BIT(TD_DT_I32), 1, k, 1}, &g_idx, err)))
            return rc;
    x->first.scales_dtype = td_op_in(op, "scales")->dtype;
    x->first.qweight = qweight;
    x->first.qzeros = qzeros;
    x->first.g_idx = g_idx;
    for (int64_t e = 0; e < x->experts && (!e || g_idx); e++) {
        const struct td_gptq_op one = td_moe_expert(x, e);

        if ((rc = td_gptq_op_check_weights(op, &one, err)))
            return rc;
    }
    return 0;
}

static int read_activations(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err)
{
    const unsigned halves = TD_DT_BIT(TD_DT_F16) | TD_DT_BIT(TD_DT_BF16);
    struct td_gptq_op *o = &x->first;
    int rc = td_op_check_in(op, &(struct td_op_expect){"a", halves, 2, o->m, o->k}, &o->lda, &o->a, err);

    if (rc)
        return rc;
    o->dtype = td_op_in(op, "a")->dtype;
    o->c = op->out.data;
    return td_op_check_tensor(op, &op->out,
                              &(struct td_op_expect){"c", TD_DT_BIT(o->dtype), 2, x->slots, o->n},
                              &o->ldc, err);
}

/* ---- the routing ----------------------------------------------------------------------------- */

/* No slot twice, and each expert one that there is. seen : bits, zeroed, one for each slot */
static int check_blocks(const struct td_op_call *op, const struct td_moe_op *x, unsigned char *seen,
                        struct td_error *err)
{
    for (int64_t b = 0; b < x->blocks; b++) {
        if (x->expert_ids[b] < -1 || x->expert_ids[b] >= x->experts)
            return td_fail(err, TD_EINVAL, "%s: expert_ids[%lld] is %d, there are %lld experts", op->kind,
                           (long long)b, x->expert_ids[b], (long long)x->experts);
        for (int64_t i = b * x->block_size; i < (b + 1) * x->block_size; i++) {
            const int64_t slot = x->sorted_token_ids[i];

            if (slot < 0)
                return td_fail(err, TD_EINVAL, "%s: sorted_token_ids[%lld] is %lld", op->kind,
                               (long long)i, (long long)slot);
            if (slot >= x->slots)
                continue;
            if (seen[slot / 8] >> slot % 8 & 1)
                return td_fail(err, TD_EINVAL, "%s: two blocks compute slot %lld", op->kind, (long long)slot);
            seen[slot / 8] |= (unsigned char)(1u << slot % 8);
        }
    }
    return 0;
}

static int read_routing(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err)
{
    int64_t n_sorted, n_blocks, n_padded, n_weights = x->slots;
    const void *sorted, *experts, *padded, *weights = NULL;
    const bool weighted = x->mul_topk_weights || td_op_in(op, "topk_weights");
    unsigned char *seen;
    int64_t count;
    int rc;

    if ((rc = check_row(op, "sorted_token_ids", TD_DT_I32, &n_sorted, &sorted, err)) ||
        (rc = check_row(op, "expert_ids", TD_DT_I32, &n_blocks, &experts, err)) ||
        (rc = check_row(op, "num_tokens_post_padded", TD_DT_I32, &n_padded, &padded, err)) ||
        (weighted && (rc = check_row(op, "topk_weights", TD_DT_F32, &n_weights, &weights, err))))
        return rc;
    if (n_padded != 1 || n_weights != x->slots)
        return td_fail(err, TD_EINVAL, "%s: %lld num_tokens_post_padded and %lld topk_weights, expected 1 and %lld",
                       op->kind, (long long)n_padded, (long long)n_weights, (long long)x->slots);
    count = *(const int32_t *)padded;
    x->blocks = count / x->block_size;
    if (count < 0 || count % x->block_size || count > n_sorted || x->blocks > n_blocks)
        return td_fail(err, TD_EINVAL,
                       "%s: num_tokens_post_padded is %lld, of %lld sorted_token_ids in blocks of %lld with %lld expert_ids",
                       op->kind, (long long)count, (long long)n_sorted, (long long)x->block_size, (long long)n_blocks);
    x->sorted_token_ids = sorted;
    x->expert_ids = experts;
    x->topk_weights = weights;
    if (!(seen = calloc((size_t)x->slots / 8 + 1, 1)))
        return td_fail(err, TD_ENOMEM, "%s: out of memory for %lld slots", op->kind, (long long)x->slots);
    rc = check_blocks(op, x, seen, err);
    free(seen);
    return rc;
}

int td_moe_op_of(const struct td_op_call *op, struct td_moe_op *x, struct td_error *err)
{
    int rc;

    memset(x, 0, sizeof *x);
    if ((rc = read_sizes(op, x, err)) || (rc = read_activations(op, x, err)) ||
        (rc = read_weights(op, x, err)) || (rc = read_routing(op, x, err)))
        return rc;
    rc = td_gptq_op_read_rounding(op, &x->first, err);
    if (!rc && x->first.rounding == TD_GPTQ_UINT8_TOKEN)
        rc = td_fail(err, TD_EUNSUPPORTED, "%s: the rounding of activations \"%s\" is not known", op->kind, op->act_rounding);
    return rc;
}

struct td_gptq_op td_moe_expert(const struct td_moe_op *x, int64_t e)
{
    struct td_gptq_op o = x->first;
    const int64_t pack = 32 / o.bits;

    o.qweight += e * (o.k / pack) * o.n;
    o.qzeros += e * o.groups * (o.n / pack);
    o.scales = (const char *)o.scales + (size_t)(e * o.groups * o.n) * td_dtype_size(o.scales_dtype);
    o.g_idx = o.g_idx ? o.g_idx + e * o.k : NULL;
    return o;
}

void td_moe_sort_slots(const struct td_moe_op *x, int64_t *first, int32_t *slot)
{
    memset(first, 0, (size_t)(x->experts + 1) * sizeof *first);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < x->blocks * x->block_size; i++) {
            const int32_t e = x->expert_ids[i / x->block_size], s = x->sorted_token_ids[i];

            if (e < 0 || s >= x->slots)
                continue;
            if (!pass)
                first[e + 1]++;          /* how many; below: where the next one goes */
            else
                slot[first[e]++] = s;
        }
        for (int64_t e = 1; !pass && e <= x->experts; e++)
            first[e] += first[e - 1];
    }
    memmove(first + 1, first, (size_t)x->experts * sizeof *first);
    first[0] = 0;
}

/* ---- what comes after a sum ------------------------------------------------------------------ */

double td_moe_factor(const struct td_moe_op *x, int64_t slot)
{
    return x->mul_topk_weights ? (double)x->topk_weights[slot] : 1;
}

double td_moe_factor_rounded(const struct td_moe_op *x, int64_t slot)
{
    const float w = x->mul_topk_weights ? x->topk_weights[slot] : 1;

    if (!x->round_topk_weights)
        return (double)w;
    return x->first.dtype == TD_DT_F16 ? td_f16_to_f32(td_f32_to_f16(w)) : td_bf16_to_f32(td_f32_to_bf16(w));
}

double td_moe_bias(const struct td_moe_op *x, int64_t e, int64_t n)
{
    return x->bias ? td_dtype_get(x->bias->dtype, x->bias->data, (size_t)(e * x->first.n + n)) : 0;
}
