/* lib_fake_simt.c - plugin of the fake CUDA driver: our own GPU kernels, run by the emulator (kernels/simt).
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/simt/simt_launch.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

void fake_cuda_plugin(const struct fake_cuda_api *api);

static void run(const struct fake_cuda_launch *l, void *kernel)
{
    static uint64_t seed;
    struct td_error err = {0};

    if (td_simt_launch_kernel(kernel, (struct td_simt_dim){l->grid[0], l->grid[1], l->grid[2]}, (struct td_simt_dim){l->block[0], l->block[1], l->block[2]},
                              l->shared_bytes, l->params, seed++, 32, &err)) {
        fprintf(stderr, "fake driver: %s\n", err.msg);
        abort();
    }
}

void fake_cuda_plugin(const struct fake_cuda_api *api)
{
    const struct td_simt_kernel *s;

    for (int i = 0; (s = td_simt_kernel_at(i)); i++) {
        struct fake_cuda_kernel k = {.symbol = s->symbol, .n_params = s->n_params, .run = run, .user = (void *)(uintptr_t)s};

        for (int p = 0; p < s->n_params && p < FAKE_CUDA_PARAMS; p++) {
            k.param[p].offset = s->params[p].offset;
            k.param[p].size = s->params[p].size;
        }
        api->add_kernel(&k);
    }
}
