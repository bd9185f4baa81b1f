/* gpu_inner.c - the launches inside a call that is recorded as one op.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_inner.h"

void tap_gpu_inner_note(struct tap_gpu_inner *in, const struct td_gpu_work *w,
                        const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k)
{
    struct td_gpu_work launched;
    bool multiplies;

    if (in->rows < 0 || strcmp(k->adapter->layout, w->adapter->layout))
        return;
    if (in->n == TAP_GPU_INNER || in->library_function || !tap_gpu_gemm_read(l, k, &launched) ||
        tap_gpu_gemm_weights(&launched) != tap_gpu_gemm_weights(w) || launched.n != w->n ||
        launched.k != w->k) {
        in->rows = -1;
        return;
    }
    multiplies = tap_gpu_gemm_operand(&launched, TD_GPU_IN);
    in->launch[in->n].kernel = k;
    memcpy(in->launch[in->n].grid, l->grid, sizeof l->grid);
    memcpy(in->launch[in->n].block, l->block, sizeof l->block);
    in->launch[in->n].shared_bytes = l->shared_bytes;
    in->launch[in->n].rows = multiplies ? launched.m : 0;
    in->rows += in->launch[in->n++].rows;
    in->rounding = launched.rounding;
}

void tap_gpu_inner_note_library(struct tap_gpu_inner *in, const char *function)
{
    if (in->n != 1 || in->rows) {
        in->rows = -1;
        return;
    }
    in->library_function = function;
    in->rounding = "weight-f16";       /* the dequantised W */
}

bool tap_gpu_inner_is_whole(const struct tap_gpu_inner *in, const struct td_gpu_work *w)
{
    return in->n > 0 && (in->library_function ? !in->rows : in->rows == w->m);
}
