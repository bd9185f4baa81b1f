/* cache_rows.c - the tap's own kernel td_cache_rows as a C function. Its PTX is in
 * recorder/tap/gpu/gpu_cache_rows.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written from the PTX and not from the tap's intention. */
#include "tests/helpers/fake_cuda/state.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    uint64_t to, from, list, rows, slots, block, block_bytes, slot_bytes, pitch;
    uint32_t piece_bytes, row_bytes, unit, none;
};

static void copy_row(const struct rows *c, uint64_t row)
{
    const uint64_t slot = ((const uint64_t *)(uintptr_t)c->list)[row];
    const uint64_t base = slot / c->block * c->block_bytes + slot % c->block * c->slot_bytes + c->from;
    const uint32_t unit = c->unit == 16 || c->unit == 4 ? c->unit : 1;
    uint32_t i;

    for (i = 0; i < c->row_bytes; i += c->unit) {
        const uint64_t s = i / c->piece_bytes * c->pitch + i % c->piece_bytes + base;
        const uint64_t t = i + row * c->row_bytes + c->to;

        if (t % unit || (slot < c->slots && s % unit))
            abort();                 /* CUDA_ERROR_MISALIGNED_ADDRESS */
        if (slot < c->slots)
            memcpy((void *)(uintptr_t)t, (const void *)(uintptr_t)s, unit);
        else
            memset((void *)(uintptr_t)t, 0, unit);
    }
}

static void run(const struct fake_cuda_launch *l, void *user)
{
    const struct rows *c = l->params[0];
    uint64_t x, row;

    (void)user;
    if (fault_due("cache_rows"))
        return;
    for (x = 0; x < l->grid[0]; x++)
        for (row = x; row < c->rows; row += l->grid[0])
            copy_row(c, row);
}

const struct fake_cuda_kernel cache_rows_kernel = {.symbol = "td_cache_rows", .n_params = 1, .param = {{0, sizeof(struct rows)}}, .run = run};
