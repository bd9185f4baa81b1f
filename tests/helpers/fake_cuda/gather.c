/* gather.c - the tap's own kernels td_gather and td_gather_waits as a C function. Their PTX is in
 * recorder/tap/gpu/gpu_gather_ptx.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written from the PTX and not from the tap's intention: another grid, a unit that does not divide
 * the size, or overlapping rows go wrong here as they would on a GPU. */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>
#include <string.h>

struct piece { uint64_t to, from, bytes, pitch; uint32_t row_bytes, unit, end, unused; };

static void copy_unit(uint64_t to, uint64_t from, uint32_t unit)
{
    if (unit != 16 && unit != 4)
        unit = 1;
    if (to % unit || from % unit)
        abort();                     /* CUDA_ERROR_MISALIGNED_ADDRESS */
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, unit);
}

/* rows: how many blocks there are, for one of which each is */
static void copy_rows(const struct piece *p, uint64_t row, uint64_t rows)
{
    uint64_t at, n, i;

    for (; (at = row * p->row_bytes) < p->bytes; row += rows) {
        n = p->bytes - at < p->row_bytes ? p->bytes - at : p->row_bytes;
        for (i = 0; i < n; i += p->unit)
            copy_unit(p->to + at + i, p->from + row * p->pitch + i, p->unit);
    }
}

static void run(const struct fake_cuda_launch *l, void *user)
{
    const struct piece *p = l->params[0];
    unsigned x, begin = 0;

    (void)user;
    if (fault_due("gather"))
        return;
    for (x = 0; x < l->grid[0]; x++) {
        while (x >= p->end)
            begin = p++->end;
        copy_rows(p, x - begin, p->end - begin);
    }
}

const struct fake_cuda_kernel gather_kernel = {.symbol = "td_gather", .n_params = 1, .param = {{0, 16 * sizeof(struct piece)}}, .run = run};
const struct fake_cuda_kernel gather_waits_kernel = {.symbol = "td_gather_waits", .n_params = 1, .param = {{0, 16 * sizeof(struct piece)}}, .run = run};
