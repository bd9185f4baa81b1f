/* gptq_match.h - find the layer of a checkpoint that has the content of a GPTQ weight.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server holds a layer of the checkpoint, or several stacked along n (q, k and v; gate and up),
 * or what one of R ranks of a tensor-parallel server has of that: its outputs of every part
 * (rank_shares.h), or 1/R of the inputs. Sizes say where to look, content decides. Scales are
 * compared as the server has them: it converts them to the type it computes in, to nearest even,
 * when it loads them. */
#ifndef TD_MODEL_IDENTIFY_GPTQ_MATCH_H
#define TD_MODEL_IDENTIFY_GPTQ_MATCH_H

#include <stdbool.h>

#include "common/desc/weight_fingerprint.h"
#include "model/checkpoint.h"
#include "model/identify/fused_layers.h"
#include "model/gptq_unpacked.h"


/* Of one layer of the checkpoint: outputs [n0, n0 + n), inputs [k0, k0 + the weight's k). */
struct td_gptq_part { const struct td_gptq_weight *w; int64_t k0, n0, n; };

struct td_gptq_match {
    struct td_fused layer;
    struct td_gptq_part part[TD_FUSED_PARTS]; /* one for each part of the layer */
    bool unsliced;                     /* all of every part; false: one rank's share */
    bool padded;                       /* w is larger: there are outputs or inputs behind them */
    bool sorted;                       /* rows lie sorted by group: the order within a group is not
                                          the checkpoint's */
};

/* The first group of the part's inputs. */
int64_t td_gptq_part_first_group(const struct td_gptq_part *p);

struct td_gptq_wanted {
    const struct td_gptq_unpacked *w;
    bool sorted_rows;                  /* w without g_idx may also match a layer with one, its rows
                                          sorted by group, in any order within a group */
    bool padded;                       /* w without g_idx may also have outputs without a scale, and
                                          inputs of zeros, behind those of the layer, as vLLM pads it
                                          for Marlin. It is compared without these */
    /* Not NULL: w->qweight is not known but for this sample of it, a matrix of I32. Rows that are
     * sorted by group then lie as td_gptq_argsort_groups() has them. */
    const struct td_weight_fingerprint *sample;
    /* [groups, n] of type w->scale_dtype. Not NULL: w->qzeros are not known but for these, each
     * zero point times minus its scale, rounded to that type. */
    const uint16_t *scaled_zeros;
};

/* Count the layers, and the ranks' shares of layers, that have the wanted content. The first is
 * described in *out. */
int td_gptq_match_find(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                       struct td_gptq_match *out);

/* The same of one layer alone, whose parts have names. */
int td_gptq_match_layer(const struct td_checkpoint *ck, const struct td_gptq_wanted *wanted,
                        const struct td_fused *layer, struct td_gptq_match *out);

/* Write w->qweight, [k*bits/32, n], as the checkpoint has it. The match is one of a sample. 0;
 * TD_ENOMEM. */
int td_gptq_match_qweight(const struct td_gptq_match *m, struct td_gptq_unpacked *w,
                          struct td_error *err);
/* Write w->qzeros and w->zero_offset likewise, of a match of scaled_zeros. */
void td_gptq_match_qzeros(const struct td_gptq_match *m, struct td_gptq_unpacked *w);

#endif
