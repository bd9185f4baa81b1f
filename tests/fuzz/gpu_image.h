/* gpu_image.h - what the fuzzers of GPU code share: read everything that an image gives, and check
 * what its headers promise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_GPU_IMAGE_H
#define TD_TESTS_FUZZ_GPU_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "kernels/gpucode/image_find.h"

static volatile uint64_t td_fuzz_sum; /* sums all bytes, so that each is read */

static inline void td_fuzz_kernel(const struct td_gpu_kernel *k)
{
    int i;

    td_fuzz_sum += strlen(k->symbol);
    for (i = 0; i < k->n_params; i++) {
        if (!k->params[i].size || k->params[i].offset + (uint64_t)k->params[i].size > k->param_bytes)
            abort();
        td_fuzz_sum += k->pointer ? k->pointer[i] : 0;
    }
}

/* Read an entry of an image: its kernels with their bounds, and its code. */
static inline void td_fuzz_entry(struct td_gpu_image *img, int i)
{
    const struct td_gpu_kernel_list *list;
    struct td_error err = {0};
    const void *code;
    size_t k, n;
    int rc = td_gpu_image_kernels(img, i, &list, &err);

    if (!rc != !err.code)
        abort();
    for (k = 0; k < list->n; k++) {
        if (list->kernels[k].entry != i)
            abort();
        if (!rc)
            td_fuzz_kernel(&list->kernels[k]);
    }
    if (!td_gpu_image_code(img, i, &code, &n, &err))
        td_fuzz_sum += td_hash64(code, n);
}

static inline void td_fuzz_find(struct td_gpu_image *img, const struct td_gpu_wanted *want)
{
    struct td_error err = {0};
    struct td_gpu_hit hit[2];
    int n = td_gpu_image_find(img, want, hit, 2, &err);

    if (n < 1 ? !err.code : !hit[0].match || !hit[0].load_bytes)
        abort();
    if (n > 0)
        td_fuzz_sum += td_hash64(hit[0].load, hit[0].load_bytes);
}

static inline void td_fuzz_image(const uint8_t *data, size_t n)
{
    struct td_gpu_image *img;
    struct td_error err = {0};
    int i;

    if (td_gpu_image_memory(data, n, "fuzz", &img, &err)) {
        if (!err.code || img)
            abort();
        return;
    }
    for (i = 0; i < td_gpu_image_entries(img) && i < 1000; i++)
        td_fuzz_entry(img, i);
    td_fuzz_find(img, &(struct td_gpu_wanted){"_ZN12_GLOBAL__N_16hiddenILi3EEEvPKfPf", "plain", {90, NULL}});
    td_fuzz_find(img, &(struct td_gpu_wanted){"plain", NULL, {0, "gfx906"}});
    td_gpu_image_close(img);
}

#endif
