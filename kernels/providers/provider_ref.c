/* provider_ref.c - runs an op as its kind's reference does, in double, and rounds once to the type of the output.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "kernels/ops/op_kinds.h"
#include "kernels/ops/store_rounded.h"
#include "kernels/providers/provider_common.h"

struct ref_state { char why[480]; };

/* The element at which row i of the output starts; all dimensions but the last count as rows. */
static int64_t row_offset(const struct td_tensor *out, int64_t i)
{
    int64_t at = 0;

    for (int d = out->ndim - 2; d >= 0; d--) {
        at += i % out->shape[d] * out->strides[d];
        i /= out->shape[d];
    }
    return at;
}

static int ref_open(const char *arg, void **state, struct td_error *err)
{
    *state = NULL;
    if (arg && *arg)
        return td_fail(err, TD_EINVAL, "provider ref takes no argument, \"%s\" was given", arg);
    *state = calloc(1, sizeof(struct ref_state));
    return *state ? 0 : td_fail(err, TD_ENOMEM, "out of memory");
}

static const char *ref_supports(void *state, const struct td_op_call *op)
{
    struct ref_state *s = state;

    return td_op_unfit(op, s->why, sizeof s->why);
}

static int ref_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    char why[480];

    (void)state;
    *prepared = NULL;
    if (td_op_unfit(op, why, sizeof why))
        return td_fail(err, TD_EINVAL, "%s", why);
    *prepared = (void *)(uintptr_t)op; /* there is nothing to keep */
    return 0;
}

static int ref_run(void *state, void *prepared, struct td_error *err)
{
    const struct td_op_call *op = prepared;
    struct td_op_ref ref;
    int rc;

    (void)state;
    if (op->out.size_bytes && !op->out.data)
        return td_fail(err, TD_EINVAL, "%s: no memory for the output", op->kind);
    if ((rc = td_op_kind_find(op->kind)->reference(op, &ref, err)))
        return rc;
    for (int64_t i = 0; i < ref.rows; i++)
        for (int64_t j = 0; td_op_ref_has_row(&ref, i) && j < ref.cols; j++)
            td_store_rounded(op->out.dtype, op->out.data, row_offset(&op->out, i) + j, ref.r1[i * ref.cols + j]);
    td_op_ref_release(&ref);
    return 0;
}

static void ref_release(void *state, void *prepared)
{
    (void)state, (void)prepared;
}

static void ref_close(void *state)
{
    free(state);
}

const struct td_provider td_provider_ref = {.name = "ref",
                                            .open = ref_open,
                                            .supports = ref_supports,
                                            .prepare = ref_prepare,
                                            .run = ref_run,
                                            .fetch = td_provider_fetch_nothing,
                                            .release = ref_release,
                                            .close = ref_close,
                                            .rounding = td_provider_rounding_exact_sums};
