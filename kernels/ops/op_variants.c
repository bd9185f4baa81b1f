/* op_variants.c - the table of the CPU variants that take an op as it is, from kernels.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_variants.h"

#include <string.h>

#define TD_VARIANT(folder, name, cpu, what) extern const struct td_op_variant td_##folder##_##name;
#include "kernels/kernels.def"

static const struct td_op_variant *const all[] = {
#define TD_VARIANT(folder, name, cpu, what) &td_##folder##_##name,
#include "kernels/kernels.def"
    NULL,
};

const struct td_op_variant *const *td_op_variants(void)
{
    return all;
}

const struct td_op_variant *td_op_variant_find(const char *kind, const char *name)
{
    for (const struct td_op_variant *const *v = all; *v; v++)
        if (!strcmp((*v)->kind, kind) && (!name || !strcmp((*v)->name, name)) && td_cpu_can_run((*v)->cpu))
            return *v;
    return NULL;
}
