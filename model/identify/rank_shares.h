/* rank_shares.h - which outputs of a layer one rank of a tensor-parallel server has.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every rank has 1/R of the outputs of each part of a layer that is stacked. Of k and v it has more
 * where there are more ranks than heads: then R/H ranks share each of H heads (vLLM 0.26:
 * QKVParallelLinear, model_executor/layers/linear.py). */
#ifndef TD_MODEL_IDENTIFY_RANK_SHARES_H
#define TD_MODEL_IDENTIFY_RANK_SHARES_H

#include <stdint.h>

#include "model/identify/fused_layers.h"

#define TD_RANKS_MAX 64              /* of a tensor-parallel server */
#define TD_RANK_WAYS (1 + TD_RANKS_MAX)

/* Part i is divided into pieces[i]; rank r has piece r / (ranks / pieces[i]) of it. */
struct td_rank_shares { int ranks, pieces[TD_FUSED_PARTS]; };

/* The ways in which parts of these outputs give a rank `rows` outputs in all; the first has a piece
 * of the same share of each part, if that is one. Returns how many.
 *   n   : [parts], above 0
 *   out : [TD_RANK_WAYS] */
int td_rank_shares_find(const int64_t *n, int parts, int64_t rows, struct td_rank_shares *out);

static inline int64_t td_rank_piece(const struct td_rank_shares *s, int part, int64_t rank)
{
    return rank / (s->ranks / s->pieces[part]);
}

#endif
