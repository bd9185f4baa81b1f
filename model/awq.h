/* awq.h - AWQ's packing of 4-bit weights, turned into GPTQ's, which everything else here reads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: AutoAWQ, version "gemm" (vLLM's auto_awq.py undoes the same). A word has eight neighbouring
 * outputs, in the order 0 2 4 6 1 3 5 7, the first lowest; stored zero points are the true ones.
 *     AWQ  : qweight [k, n / 8], qzeros [groups, n / 8]
 *     GPTQ : qweight [k / 8, n], qzeros [groups, n / 8], outputs in their own order; zero_offset 0 */
#ifndef TD_MODEL_AWQ_H
#define TD_MODEL_AWQ_H

#include "model/gptq.h"

/* Unpack qweight, or qzeros. awq : of any alignment; k and n : multiples of 8; out : as many words. */
void td_awq_unpack_weight(int64_t k, int64_t n, const void *awq, uint32_t *out);
void td_awq_unpack_zeros(int64_t groups, int64_t n, const void *awq, uint32_t *out);

/* Number n of row `row` of qweight [., n_all / 8]. */
unsigned td_awq_q(const void *awq, int64_t n_all, int64_t row, int64_t n);

/* As td_gptq_weight_load(), but *out has its weights in .awq, not in .qweight, so that a checkpoint opens
 * without a copy of them; its zero points are turned into GPTQ's. TD_ENOTFOUND: also a layer without zero
 * points. */
int td_awq_weight_load(const struct td_safetensors *st, const char *layer, int group_size,
                       struct td_gptq_weight *out, struct td_error *err);

#endif
