/* oplist.h - which of a fixture's ops are replayed, and in what order: filter, shard, sample, sort.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fixture may hold a million ops, so the first pass keeps a few words of each; whole records are read for the chosen. */
#ifndef TD_REPLAYER_OPLIST_H
#define TD_REPLAYER_OPLIST_H

#include "format/fixture.h"
#include "format/m_class.h"
#include "replayer/options.h"

#define TD_OP_SHAPE_WORDS 192 /* td_op_shape_words() of any op fits: an element type and 8 sizes, or 4 attributes */

/* Ops with the same kernel, the same sizes but for M, and the same M class: reports and samples go by these. */
struct td_op_group {
    char kernel[64];     /* "gptq_gemm" */
    char shape[TD_OP_SHAPE_WORDS]; /* "k256 n640 b4 g128 act", "Q4_1 k256 n640": sizes without M; those of the output where there is no n or k */
    int m_class;         /* td_m_class() */
    int64_t seen, chosen;
};

struct td_op_choice {
    int64_t op, seq;     /* the fixture's number; place in ops.jsonl.zst */
    uint64_t weights;    /* equal: same kind, attributes (but m) and inputs (but a) */
    int32_t group;
    bool chosen;
};

struct td_op_list {
    struct td_op_choice *items; size_t n, cap;
    struct td_op_group *groups; size_t n_groups, cap_groups;
    int64_t bad_frames;          /* of ops.jsonl.zst: the ops in them are lost */
    int64_t not_matching, other_shards, not_sampled; /* seen and not chosen, why */
};

/* Number that stands for everything that several ops with the same weights share. */
uint64_t td_op_weights_key(const struct td_op *op);
void td_op_shape_words(const struct td_op *op, char *out, size_t n);

/* Read the fixture's ops and choose. Deterministic: the same fixture and options choose the same ops. */
int td_op_list_scan(struct td_fixture *fx, const struct td_replay_options *opt, struct td_op_list *list, struct td_error *err);
void td_op_list_release(struct td_op_list *list);

/* For scan and tests: note an op; choose at most `max` of the chosen ones (0: no maximum), every group gets its share. */
int td_op_list_add(struct td_op_list *list, const struct td_op *op, int64_t seq, bool chosen, struct td_error *err);
void td_op_list_sample(struct td_op_list *list, int64_t max);

#endif
