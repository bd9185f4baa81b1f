/* identify_awq.c - identify weights that a server holds as AWQ packs them, for vLLM's awq_gemm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/awq.h"
#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"

static int unpack(const struct td_weight_set *s, struct td_gptq_unpacked *w, struct td_error *err)
{
    const void *qweight = td_weight_set_sent(s, "qweight", "I32", 2, (int64_t[]){w->k, w->n / 8}),
               *qzeros = td_weight_set_sent(s, "qzeros", "I32", 2, (int64_t[]){w->groups, w->n / 8}),
               *scales = td_weight_set_sent_16bit(s, "scales", &w->scale_dtype, 2,
                                                  (int64_t[]){w->groups, w->n});

    if (w->bits != 4 || !qweight || !qzeros || !scales)
        return td_fail(err, TD_EINVAL, "weights of awq_gemm in another form than its arguments say");
    td_awq_unpack_weight(w->k, w->n, qweight, w->qweight);
    td_awq_unpack_zeros(w->groups, w->n, qzeros, w->qzeros);
    memcpy(w->scales, scales, (size_t)(w->groups * w->n) * 2);
    return TD_OK;
}

int td_identify_awq(struct td_weight_set *s, struct td_error *err)
{
    return td_identify_by(s, "awq_gemm", unpack, false, err);
}
