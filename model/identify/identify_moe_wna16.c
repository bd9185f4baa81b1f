/* identify_moe_wna16.c - identify the experts of a mixture as vLLM's moe_wna16_gemm reads them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: vLLM 0.26, vllm/model_executor/layers/quantization/moe_wna16.py: output after output, in
 * bytes. qweight [experts, n, k*bits/8] holds a checkpoint's words, transposed; scales
 * [experts, n, groups]; qzeros [experts, n*bits/8, groups] holds neighbouring outputs in a byte, the
 * zero points as they are. Without zero points the type is symmetric. */
#include <string.h>

#include "model/identify/identify_entries.h"
#include "model/identify/moe_experts.h"

static int read_sent(const struct td_weight_set *s, const struct td_experts_sizes *x,
                     struct td_experts_sent *in, struct td_error *err)
{
    const int64_t e = x->experts;

    in->qweight = td_weight_set_sent(s, "qweight", "U8", 3, (int64_t[]){e, x->n, x->k * x->bits / 8});
    in->scales =
        td_weight_set_sent_16bit(s, "scales", &in->scale_dtype, 3, (int64_t[]){e, x->n, x->groups});
    if (!td_experts_take(s, "qzeros", "U8", 3, (int64_t[]){e, x->n * x->bits / 8, x->groups},
                         &in->qzeros) ||
        !in->qweight || !in->scales)
        return td_fail(err, TD_EINVAL,
                       "experts of moe_wna16_gemm in another form than their arguments say");
    return TD_OK;
}

/* zeros : of one expert */
static void unpack_zeros(const unsigned char *zeros, struct td_gptq_unpacked *w)
{
    const int64_t per_byte = 8 / w->bits, per_word = 32 / w->bits;
    int64_t n, g;

    for (n = 0; n < w->n; n++)
        for (g = 0; g < w->groups; g++) {
            const uint32_t byte = zeros[n / per_byte * w->groups + g],
                           zero = byte >> n % per_byte * w->bits & ((1u << w->bits) - 1);

            w->qzeros[(g * w->n + n) / per_word] |= zero << n % per_word * w->bits;
        }
}

static int unpack_expert(const struct td_experts_sizes *x, const struct td_experts_sent *in, int64_t e,
                         struct td_gptq_unpacked *w, uint16_t *bias, struct td_error *err)
{
    const int64_t words = x->k * x->bits / 32;
    const unsigned char *q = (const unsigned char *)in->qweight + e * x->n * words * 4,
                        *z = in->qzeros;
    const uint16_t *scales = in->scales + e * x->n * x->groups;
    int64_t n, i;

    (void)bias, (void)err;
    for (n = 0; n < x->n; n++) {
        for (i = 0; i < words; i++)
            memcpy(&w->qweight[i * x->n + n], q + (n * words + i) * 4, 4);
        for (i = 0; i < x->groups; i++)
            w->scales[i * x->n + n] = scales[n * x->groups + i];
    }
    if (z)
        unpack_zeros(z + e * (x->n * x->bits / 8) * x->groups, w);
    else
        td_gptq_unpacked_set_symmetric(w);
    return TD_OK;
}

int td_identify_moe_wna16(struct td_weight_set *s, struct td_error *err)
{
    static const struct td_experts_layout wna16 = {"moe_wna16_gemm", read_sent, unpack_expert};

    return td_identify_experts(s, &wna16, err);
}
