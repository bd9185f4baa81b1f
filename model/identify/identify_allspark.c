/* identify_allspark.c - identify weights that vLLM repacked for its AllSpark kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, vllm/model_executor/kernels/linear/mixed_precision/allspark.py: 8 bits, one
 * group, no zero points. */
#include "model/allspark_layout.h"
#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"

static int unpack(const struct td_weight_set *s, struct td_gptq_unpacked *w, struct td_error *err)
{
    const int64_t padded = td_allspark_padded(w->n);
    const void *qweight = td_weight_set_sent(s, "qweight", "U8", 2, (int64_t[]){padded, w->k}),
               *scales = td_weight_set_sent_16bit(s, "scales", &w->scale_dtype, 2,
                                                  (int64_t[]){1, padded});

    if (w->bits != 8 || w->groups != 1 || !qweight || !scales)
        return td_fail(err, TD_EINVAL,
                       "weights of allspark_w8a16_gemm in another form than its arguments say");
    td_gptq_unpacked_set_symmetric(w);
    return td_allspark_unrepack(w->k, w->n, qweight, scales, w->qweight, w->scales, err);
}

int td_identify_allspark(struct td_weight_set *s, struct td_error *err)
{
    return td_identify_by(s, "allspark_w8a16_gemm", unpack, false, err);
}
