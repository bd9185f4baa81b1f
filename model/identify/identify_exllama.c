/* identify_exllama.c - identify weights that vLLM shuffled for its exllama kernels.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/exllama_layout.h"
#include "model/gptq.h"
#include "model/identify/identify_entries.h"
#include "model/identify/identify_unpacked.h"

struct sent { const void *qweight, *qzeros, *scales, *perm; };

static bool find_sent(const struct td_weight_set *s, const struct td_gptq_unpacked *w,
                      struct sent *sent)
{
    sent->qweight =
        td_weight_set_sent(s, "qweight", "I32", 2, (int64_t[]){w->k * w->bits / 32, w->n});
    sent->qzeros =
        td_weight_set_sent(s, "qzeros", "I32", 2, (int64_t[]){w->groups, w->n * w->bits / 32});
    sent->scales = td_weight_set_sent(s, "scales", "F16", 2, (int64_t[]){w->groups, w->n});
    sent->perm = td_weight_set_has(s, "perm")
                     ? td_weight_set_sent(s, "perm", "I32", 1, (int64_t[]){w->k})
                     : NULL;
    return sent->qweight && sent->qzeros && sent->scales &&
           !sent->perm == !td_weight_set_has(s, "perm");
}

/* Derive w->g_idx, each row's group, from perm, each row's place. NULL when rows are in group
 * order. */
static int set_g_idx(struct td_gptq_unpacked *w, const int32_t *perm, struct td_error *err)
{
    w->g_idx = malloc((size_t)w->k * sizeof *w->g_idx);
    if (!w->g_idx)
        return td_fail(err, TD_ENOMEM, "out of memory for %lld rows", (long long)w->k);
    td_gptq_g_idx_of_perm(perm, w->k, w->k / w->groups, w->g_idx);
    if (td_gptq_g_idx_is_trivial(w->g_idx, w->k, w->k / w->groups)) {
        free(w->g_idx);
        w->g_idx = NULL;
    }
    return TD_OK;
}

static int unshuffle(const struct td_weight_set *s, struct td_gptq_unpacked *w, struct td_error *err)
{
    struct sent sent;
    int rc;

    if (!find_sent(s, w, &sent))
        return td_fail(err, TD_EINVAL,
                       "weights of gptq_gemm in another form than its arguments say");
    rc = td_exllama_unshuffle(w->bits, w->k, w->n, sent.qweight, sent.perm, w->qweight, err);
    if (!rc && sent.perm)
        rc = set_g_idx(w, sent.perm, err);
    if (rc)
        return rc;
    memcpy(w->qzeros, sent.qzeros, (size_t)(w->groups * (w->n * w->bits / 32)) * 4);
    memcpy(w->scales, sent.scales, (size_t)(w->groups * w->n) * 2);
    w->scale_dtype = TD_DT_F16;
    w->zero_offset = td_weight_set_attr(s, "zero_offset", 1) != 0;
    return TD_OK;
}

int td_identify_exllama(struct td_weight_set *s, struct td_error *err)
{
    return td_identify_by(s, "gptq_gemm", unshuffle, false, err);
}
