/* identify_machete.c - identify weights that vLLM repacked for its Machete kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the repacked weight is CUTLASS's own, and nothing undoes it: the tap has a sample
 * of the weight from before (machete_prepack_B), and all of its scales. Source: vLLM 0.26,
 * vllm/model_executor/kernels/linear/mixed_precision/machete.py. With act-order the rows are
 * sorted by group before they are repacked, and so are the columns of the A that the kernel gets:
 * the op is stored like that, without a g_idx. Without zero points the type is symmetric (uint4b8,
 * uint8b128). Zero points come multiplied by minus their scales, and rounded: the checkpoint says
 * which integers they were. */
#include <string.h>

#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"

/* *zeros: the scaled zero points; NULL: there are none. */
static int read_zeros(const struct td_weight_set *s, const struct td_gptq_unpacked *w,
                      const uint16_t **zeros, struct td_error *err)
{
    enum td_dtype dtype = w->scale_dtype;

    *zeros = NULL;
    if (!td_weight_set_has(s, "qzeros"))
        return TD_OK;
    *zeros = td_weight_set_sent_16bit(s, "qzeros", &dtype, 2, (int64_t[]){w->groups, w->n});
    if (!*zeros || dtype != w->scale_dtype)
        return td_fail(err, TD_EINVAL,
                       "zero points of Machete in another form than its arguments say");
    return TD_OK;
}

static int read_sent(const struct td_weight_set *s, struct td_gptq_unpacked *w,
                     const uint16_t **zeros, struct td_error *err)
{
    const struct td_weight_fingerprint *p = s->fingerprint;
    const void *scales = td_weight_set_sent_16bit(s, "scales", &w->scale_dtype, 2,
                                                  (int64_t[]){w->groups, w->n});

    if (!p || p->rows != w->k * w->bits / 32 || p->cols != w->n || strcmp(p->dtype, "I32"))
        return td_fail(err, TD_EINVAL, "weights of Machete without a sample of them");
    if (!scales)
        return td_fail(err, TD_EINVAL, "weights of Machete in another form than its arguments say");
    memcpy(w->scales, scales, (size_t)(w->groups * w->n) * 2);
    td_gptq_unpacked_set_symmetric(w);
    return read_zeros(s, w, zeros, err);
}

int td_identify_machete(struct td_weight_set *s, struct td_error *err)
{
    struct td_gptq_unpacked w = {0};
    const uint16_t *zeros = NULL;
    int rc = td_identify_begin(s, "Machete", &w, err);

    if (!rc)
        rc = read_sent(s, &w, &zeros, err);
    if (!rc)
        rc = td_identify_sampled(s, &w, true, zeros, err);
    td_gptq_unpacked_release(&w);
    return td_identify_unpack_error(rc, err);
}
