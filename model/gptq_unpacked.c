/* gptq_unpacked.c - memory for a GPTQ weight that is made from a run-time layout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/gptq_unpacked.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIM (1 << 24)

void td_gptq_unpacked_set_symmetric(struct td_gptq_unpacked *w)
{
    memset(w->qzeros, w->bits == 4 ? 0x77 : 0x7f, (size_t)(w->groups * (w->n * w->bits / 32)) * 4);
    w->zero_offset = 1;
}

void td_gptq_unpacked_release(struct td_gptq_unpacked *w)
{
    free(w->qweight);
    free(w->qzeros);
    free(w->scales);
    free(w->g_idx);
    memset(w, 0, sizeof *w);
}

int td_gptq_unpacked_init(struct td_gptq_unpacked *w, int bits, int64_t n, int64_t k, int64_t groups, struct td_error *err)
{
    memset(w, 0, sizeof *w);
    if ((bits != 4 && bits != 8) || n <= 0 || k <= 0 || groups <= 0 || n > MAX_DIM || k > MAX_DIM ||
        n % (32 / bits) || k % (32 / bits) || k % groups)
        return td_fail(err, TD_EINVAL,
                       "vLLM's weights of %d bits cannot be [%lld, %lld] in %lld groups", bits,
                       (long long)k, (long long)n, (long long)groups);
    w->bits = bits, w->n = n, w->k = k, w->groups = groups;
    w->qweight = calloc((size_t)(k * bits / 32 * n), 4);
    w->qzeros = calloc((size_t)(groups * (n * bits / 32)), 4);
    w->scales = malloc((size_t)(groups * n) * 2);
    if (w->qweight && w->qzeros && w->scales)
        return TD_OK;
    td_gptq_unpacked_release(w);
    return td_fail(err, TD_ENOMEM, "out of memory for weights [%lld, %lld]", (long long)k, (long long)n);
}
