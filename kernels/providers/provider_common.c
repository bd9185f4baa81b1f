/* provider_common.c - functions of struct td_provider that several providers share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/provider_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/gptq_gemm_op.h"

const char *td_provider_supports_gptq_gemm(const struct td_op_call *op, char *buf, size_t size)
{
    struct td_gptq_gemm_args x;
    struct td_error err = {0};

    if (strcmp(op->kind, "gptq_gemm"))
        snprintf(buf, size, "ops of kind \"%s\" are not supported; this provider runs gptq_gemm", op->kind);
    else if (td_gptq_gemm_args_exact(op, &x, &err))
        snprintf(buf, size, "%s", err.msg);
    else
        return NULL;
    return buf;
}

int td_provider_prepare_gptq_gemm(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    struct td_gptq_gemm_args *x = malloc(sizeof *x);
    int rc;

    (void)state;
    *prepared = NULL;
    if (!x)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if ((rc = td_gptq_gemm_args_exact(op, x, err)))
        free(x);
    else
        *prepared = x;
    return rc;
}

int td_provider_fetch_nothing(void *state, void *prepared, struct td_error *err)
{
    (void)state, (void)prepared, (void)err;
    return 0;
}

const char *td_provider_rounding_none(void *state, const struct td_op_call *op)
{
    (void)state, (void)op;
    return "none";
}

const char *td_provider_rounding_exact_sums(void *state, const struct td_op_call *op)
{
    (void)state;
    return strcmp(op->kind, "scaled_mm") && strcmp(op->kind, "moe_scaled_mm") ? NULL : "none";
}

void td_provider_free_prepared(void *state, void *prepared)
{
    (void)state;
    free(prepared);
}
