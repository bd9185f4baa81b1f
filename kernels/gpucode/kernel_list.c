/* kernel_list.c - the kernels of one program of GPU code.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/kernel_list.h"

#include <stdlib.h>
#include <string.h>

struct td_gpu_kernel *td_gpu_kernel_add(struct td_gpu_kernel_list *list, const char *symbol,
                                        size_t symbol_len, struct td_error *err)
{
    struct td_gpu_kernel *k;
    char *name;

    if (list->n == TD_GPU_MAX_KERNELS) {
        td_fail(err, TD_ELIMIT, "more than %d kernels in one program", TD_GPU_MAX_KERNELS);
        return NULL;
    }
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;

        if (!(k = realloc(list->kernels, cap * sizeof *k)))
            goto fail;
        list->kernels = k;
        list->cap = cap;
    }
    if (!(name = strndup(symbol, symbol_len)))
        goto fail;
    k = &list->kernels[list->n++];
    *k = (struct td_gpu_kernel){.symbol = name, .n_params = -1};
    return k;
fail:
    td_fail(err, TD_ENOMEM, "out of memory");
    return NULL;
}

int td_gpu_kernel_set_params(struct td_gpu_kernel *k, size_t n, bool pointers, struct td_error *err)
{
    if (n > TD_GPU_MAX_PARAMS)
        return td_fail(err, TD_ELIMIT, "kernel %.200s has %zu parameters, at most %d are read", k->symbol, n, TD_GPU_MAX_PARAMS);
    k->params = calloc(n ? n : 1, sizeof *k->params);
    k->pointer = pointers ? calloc(n ? n : 1, sizeof *k->pointer) : NULL;
    if (!k->params || (pointers && !k->pointer))
        return td_fail(err, TD_ENOMEM, "out of memory");
    k->n_params = (int)n;
    return TD_OK;
}

void td_gpu_kernel_list_release(struct td_gpu_kernel_list *list)
{
    size_t i;

    for (i = 0; i < list->n; i++) {
        free((char *)list->kernels[i].symbol);
        free((struct td_gpu_param *)list->kernels[i].params);
        free((bool *)list->kernels[i].pointer);
    }
    free(list->kernels);
    *list = (struct td_gpu_kernel_list){0};
}
