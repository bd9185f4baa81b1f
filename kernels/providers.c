/* providers.c - the built-in providers by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers.h"

#include <stdio.h>
#include <string.h>

static const struct td_provider *const providers[] = {&td_provider_ref, &td_provider_cpu, &td_provider_lib};

const struct td_provider *td_provider_find(const char *name)
{
    for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
        if (!strcmp(providers[i]->name, name))
            return providers[i];
    return NULL;
}

const char *td_provider_supports_gptq_gemm(const struct td_op_call *op, char *buf, size_t size)
{
    const struct td_op_kind *kind = td_op_kind_find(op->kind);
    struct td_error err = {0};

    if (!kind || strcmp(kind->name, "gptq_gemm"))
        snprintf(buf, size, "ops of kind \"%s\" are not supported; this provider runs gptq_gemm", op->kind);
    else if (kind->check(op, &err))
        snprintf(buf, size, "%s", err.msg);
    else
        return NULL;
    return buf;
}
