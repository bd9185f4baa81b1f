/* gptq_gemm_pick.c - the table of the variants, the choice of one for this machine, the rules of the arguments.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/gptq_gemm/gptq_gemm.h"

const struct td_gptq_gemm_variant td_gptq_gemm_variants[] = {
#define TD_GPTQ_VARIANT(name, cpu, what) {#name, what, cpu, td_gptq_gemm_##name},
#include "kernels/kernels.def"
    {0},
};

bool td_gptq_gemm_can_run(const struct td_gptq_gemm_variant *v)
{
    return td_cpu_can_run(v->cpu);
}

const struct td_gptq_gemm_variant *td_gptq_gemm_find(const char *name)
{
    for (const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants; v->name; v++)
        if ((!name || !strcmp(name, v->name)) && td_gptq_gemm_can_run(v))
            return v;
    return NULL;
}

int td_gptq_gemm_check(const struct td_gptq_gemm_args *x)
{
    int pack;

    if (!x || x->struct_size < sizeof *x || x->m < 0 || x->n <= 0 || x->k <= 0)
        return TD_KERNEL_EINVAL;
    if (!x->qweight || !x->qzeros || !x->scales || (x->m > 0 && (!x->a || !x->c || x->lda < x->k || x->ldc < x->n)))
        return TD_KERNEL_EINVAL;
    if ((x->bits != 4 && x->bits != 8) || x->flags != 0 || (x->zero_offset != 0 && x->zero_offset != 1))
        return TD_KERNEL_EUNSUPPORTED;
    pack = 32 / x->bits;
    if (x->k % pack || x->n % pack)
        return TD_KERNEL_EUNSUPPORTED;
    if (x->group_size != x->k && (x->group_size < 8 || x->group_size % 8 || x->k % x->group_size)) /* a word lies in one group */
        return TD_KERNEL_EUNSUPPORTED;
    return TD_KERNEL_OK;
}

int td_gptq_gemm_run(const struct td_gptq_gemm_variant *v, const struct td_gptq_gemm_args *x)
{
    const int rc = td_gptq_gemm_check(x);

    return rc || x->m == 0 ? rc : v->run(x);
}
