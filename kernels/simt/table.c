/* table.c - the kernels of all .cu files, as kernels.def lists the files.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/simt/simt_launch.h"

#define TD_CU(folder, name, what) extern const struct td_simt_kernel td_simt_kernels_##folder##_##name[];
#include "kernels/kernels.def"

static const struct td_simt_kernel *const files[] = {
#define TD_CU(folder, name, what) td_simt_kernels_##folder##_##name,
#include "kernels/kernels.def"
};

const struct td_simt_kernel *td_simt_kernel_at(int i)
{
    for (size_t f = 0; i >= 0 && f < sizeof files / sizeof *files; f++)
        for (const struct td_simt_kernel *k = files[f]; k->symbol; k++)
            if (!i--)
                return k;
    return NULL;
}

const struct td_simt_kernel *td_simt_kernel_find(const char *symbol)
{
    const struct td_simt_kernel *k;

    for (int i = 0; (k = td_simt_kernel_at(i)); i++)
        if (!strcmp(k->symbol, symbol))
            return k;
    return NULL;
}
