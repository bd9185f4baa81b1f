/* cache_rows_kind.c - ops of kind "cache_rows": their check and their right answer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Rows of keys and values go into a cache, each into a slot that a list names. The op has what lies in these slots after it.
 *   a     : [m, n] float: keys                  value : the same type and shape
 *   k_pe  : [m, p], in place of value: it comes behind a in the same slot
 *   slots : [m] I64; a row whose slot is negative is not written
 *   k_scale, v_scale : F32, one, or one for each head; where the cache has codes of 8 bits
 *   part 0: what lies where a went, [m, n + p], of a's type, or F8_E4M3 or F8_E5M2; part 1: where value went
 *   attributes m, n; block_size: slots of a block; with value also head: numbers of a head, and x, apart: how the cache lies
 * Numbers are copied, or become codes: those of a / scale, to nearest even, at most the largest one.
 *
 * Not judged: rows that are not written, rows of one slot, since any of them may be last, and codes of NaN and Inf.
 *
 * Source: vLLM 0.26, csrc/libtorch_stable/cache_kernels.cu (reshape_and_cache, reshape_and_cache_flash, concat_and_cache_mla). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/beside_op.h"
#include "kernels/ops/op_kind.h"
#include "kernels/ops/store_rounded.h"

#define CODES (TD_DT_BIT(TD_DT_F8_E4M3) | TD_DT_BIT(TD_DT_F8_E5M2))

struct cache_rows {
    int64_t m, n, head, part;
    struct td_matrix a, value, k_pe, slots, scale; /* scale: of this part */
    enum td_dtype stored;
};

static bool has_codes(const struct cache_rows *x)
{
    return TD_DT_BIT(x->stored) & CODES;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_attrs(const struct td_op_call *op, struct cache_rows *x, struct td_error *err)
{
    const bool has_value = td_op_in(op, "value");
    int64_t block, form;
    int rc;

    if ((rc = td_op_check_attr(op, "m", 0, INT64_MIN, &x->m, err)) || (rc = td_op_check_attr(op, "n", 1, INT64_MIN, &x->n, err)) ||
        (rc = td_op_check_attr(op, "block_size", 1, INT64_MIN, &block, err)) || (rc = td_op_check_attr(op, "head", 1, has_value ? INT64_MIN : x->n, &x->head, err)) ||
        (rc = td_op_check_attr(op, "x", 0, 0, &form, err)) || (rc = td_op_check_attr(op, "apart", 0, 0, &form, err)) ||
        (rc = td_beside_part(op, has_value ? 2 : 1, &x->part, err)))
        return rc;
    if (x->n % x->head)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld are no multiple of a head of %lld", op->kind, (long long)x->n, (long long)x->head);
    return 0;
}

static int read_scale(const struct td_op_call *op, struct cache_rows *x, struct td_error *err)
{
    const char *role = x->part ? "v_scale" : "k_scale";
    const struct td_tensor *t = td_op_in(op, role);
    const int64_t heads = t && t->ndim == 1 && t->shape[0] > 1 ? x->n / x->head : 1;

    return has_codes(x) ? td_beside_vector(op, role, TD_DT_BIT(TD_DT_F32), heads, &x->scale, err) : 0;
}

static int read_inputs(const struct td_op_call *op, struct cache_rows *x, struct td_error *err)
{
    unsigned type;
    int rc = td_beside_matrix(op, "a", TD_DT_FLOATS, x->m, &x->a, err);

    if (rc || (rc = td_beside_vector(op, "slots", TD_DT_BIT(TD_DT_I64), x->m, &x->slots, err)))
        return rc;
    if (x->a.cols != x->n)
        return td_fail(err, TD_EINVAL, "%s: rows of %lld, n is %lld", op->kind, (long long)x->a.cols, (long long)x->n);
    type = TD_DT_BIT(x->a.t->dtype);
    if (td_op_in(op, "value") && (rc = td_beside_matrix(op, "value", type, x->m, &x->value, err)))
        return rc;
    if (td_op_in(op, "k_pe") && (rc = td_beside_matrix(op, "k_pe", type, x->m, &x->k_pe, err)))
        return rc;
    if (!x->value.t == !x->k_pe.t || (x->value.t && x->value.cols != x->n))
        return td_fail(err, TD_EINVAL, "%s: a needs either a value of its shape or a k_pe", op->kind);
    return 0;
}

static int read_op(const struct td_op_call *op, struct cache_rows *x, struct td_error *err)
{
    static const char *const roles[] = {"a", "value", "k_pe", "slots", "k_scale", "v_scale", NULL};
    int rc;

    memset(x, 0, sizeof *x);
    x->stored = op->out.dtype;
    if ((rc = td_beside_check_known(op, roles, err)) || (rc = read_attrs(op, x, err)) ||
        (rc = read_inputs(op, x, err)) || (rc = read_scale(op, x, err)))
        return rc;
    return td_beside_check_out(op, CODES | TD_DT_BIT(x->a.t->dtype), x->m, x->n + x->k_pe.cols, err);
}

static int check(const struct td_op_call *op, struct td_error *err)
{
    struct cache_rows x;

    return read_op(op, &x, err);
}

/* ---- what is written ------------------------------------------------------------------------- */

/* Column j of what goes into the slot of row i. */
static double source_of(const struct cache_rows *x, int64_t i, int64_t j)
{
    if (j >= x->n)
        return td_matrix_get(&x->k_pe, i, j - x->n);
    return td_matrix_get(x->part ? &x->value : &x->a, i, j);
}

/* False: the row is not judged. */
static bool code_row(const struct cache_rows *x, int64_t i, int64_t cols, double *r0, double *mag)
{
    const bool per_head = x->scale.rows > 1;
    bool judged = true;

    for (int64_t j = 0; j < cols; j++) {
        const double scale = td_matrix_get(&x->scale, per_head ? j / x->head : 0, 0), r = source_of(x, i, j) / scale;
        const double error = fabs(r) * TD_CODE_FLOAT_ERROR;

        judged &= isfinite(r) && isfinite(scale) && scale > 0;
        r0[j] = td_rounded_to(x->stored, r);
        mag[j] = fabs(td_rounded_to(x->stored, r + error) - td_rounded_to(x->stored, r - error)) * TD_CODE_ROOM_OF_STEP;
    }
    return judged;
}

static bool copy_row(const struct cache_rows *x, int64_t i, int64_t cols, double *r0, double *mag)
{
    for (int64_t j = 0; j < cols; j++)
        r0[j] = source_of(x, i, j), mag[j] = 0;
    return true;
}

struct slot { int64_t number, row; };

static int compare_slots(const void *a, const void *b)
{
    const int64_t x = ((const struct slot *)a)->number, y = ((const struct slot *)b)->number;

    return x < y ? -1 : x > y;
}

/* Leave out rows that are not written, and rows that share a slot. */
static void leave_out(const struct cache_rows *x, struct slot *slots, unsigned char *unjudged)
{
    const int64_t *list = x->slots.t->data;

    for (int64_t i = 0; i < x->m; i++)
        slots[i] = (struct slot){list[i], i};
    qsort(slots, (size_t)x->m, sizeof *slots, compare_slots);
    for (int64_t i = 0; i < x->m; i++)
        unjudged[slots[i].row] = slots[i].number < 0 || (i && slots[i - 1].number == slots[i].number) ||
                                 (i + 1 < x->m && slots[i + 1].number == slots[i].number);
}

static void compute_rows(const struct cache_rows *x, struct td_op_ref *ref)
{
    for (int64_t i = 0; i < x->m; i++) {
        double *r0 = ref->r0 + i * ref->cols, *mag = ref->mag + i * ref->cols;

        if (!ref->unjudged[i] && (has_codes(x) ? code_row : copy_row)(x, i, ref->cols, r0, mag))
            continue;
        ref->unjudged[i] = 1;
        memset(r0, 0, (size_t)ref->cols * sizeof *r0);
        memset(mag, 0, (size_t)ref->cols * sizeof *mag);
    }
}

static int compute_reference(const struct td_op_call *op, struct td_op_ref *ref, struct td_error *err)
{
    struct cache_rows x;
    struct slot *slots;
    int rc = read_op(op, &x, err);

    memset(ref, 0, sizeof *ref);
    if (rc || (rc = td_op_ref_new(ref, x.m, x.n + x.k_pe.cols, TD_CODE_INNER, false, err)))
        return rc;
    slots = malloc(((size_t)x.m + 1) * sizeof *slots);
    ref->unjudged = calloc((size_t)x.m + 1, 1);
    if (slots && ref->unjudged) {
        leave_out(&x, slots, ref->unjudged);
        compute_rows(&x, ref);
    } else {
        td_op_ref_release(ref);
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory for the reference", op->kind);
    }
    free(slots);
    return rc;
}

const struct td_op_kind td_cache_rows_kind = {"cache_rows", check, compute_reference};
