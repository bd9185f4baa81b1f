/* op_list.h - choose which of a fixture's ops are replayed: by filter, shard and sample.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A fixture may hold a million ops, so the list has a few words of each. Their records are read
 * later, and only of those that were chosen. */
#ifndef TD_REPLAYER_OP_LIST_H
#define TD_REPLAYER_OP_LIST_H

#include "format/fixture.h"
#include "format/m_class.h"
#include "replayer/replay_options.h"

/* Room for td_op_shape_words() of any op: an element type and 8 sizes, or 4 attributes. */
#define TD_OP_SHAPE_WORDS 192

/* Ops with the same kernel, the same sizes but for M, the same M class, and the same formats. Samples are
 * drawn and results are reported by group. Groups are no coarser than those of differ/numerics.h: an op of
 * each is one of each there. */
struct td_op_group {
    char kernel[64];     /* "gptq_gemm" */
    char shape[TD_OP_SHAPE_WORDS]; /* "N=640 K=256 b4 g128 act", "Q4_1 N=640 K=256": sizes without M;
                                      those of the output where there is no n or k */
    int m_class;         /* td_m_class() */
    uint64_t format;     /* equal: the same element types of the output and of a, rounding, and symbol */
    int64_t seen, chosen;
    double products;     /* of A and W that a GPU can compute for the judge, of all that were seen */
    int64_t first;       /* of its ops in td_op_list.order, once that is there */
};

struct td_op_choice {
    int64_t op, step;    /* its number in the fixture; -1: no step is known */
    uint64_t weights;    /* equal: same kind, attributes (but m) and inputs (but a) */
    uint32_t layer;      /* a hash of its layer's name */
    int32_t group;
    int32_t rank;        /* its place in the order of its group (op_order.h) */
    int32_t turn;        /* the same, counting only those that were chosen; -1: it was not */
    bool matches;        /* the filter and the shard: it could be chosen */
    bool chosen, done;   /* done: replayed already, to find out what ops take */
    uint32_t line;       /* of ops.jsonl.zst, from 0 (td_cursor_lines) */
};

struct td_op_list {
    struct td_op_choice *items; size_t n, cap; /* in the order of ops.jsonl.zst */
    struct td_op_group *groups; size_t n_groups, cap_groups;
    int32_t *order;              /* [n] places in items, by group and rank; NULL before td_op_order_make() */
    int64_t bad_frames;          /* of ops.jsonl.zst: the ops in them are lost */
    int64_t not_matching, other_shards, not_sampled; /* seen, but not chosen */
};

/* A number that is equal for ops whose references can share the dequantised weights: same kind,
 * attributes (but m) and inputs (but those of the call; an op that has others than a is refused
 * by td_reference_batch_fits()). */
uint64_t td_op_weights_key(const struct td_op *op);
/* Describe the sizes of an op, as in td_op_group.shape. */
void td_op_shape_words(const struct td_op *op, char *out, size_t n);

/* Read the fixture's ops and choose. The same fixture and options always choose the same ops. */
int td_op_list_scan(struct td_fixture *fx, const struct td_replay_options *opt, struct td_op_list *list, struct td_error *err);
void td_op_list_release(struct td_op_list *list);
/* About how many products of A and W the chosen ops are of which a GPU can compute references. */
double td_op_list_products(const struct td_op_list *list);

/* The two steps of td_op_list_scan(): add an op; then put all in order (op_order.h), and choose at most
 * `max` of those marked as chosen (0: all). Every group keeps its share, and at least one op. */
int td_op_list_add(struct td_op_list *list, const struct td_op *op, bool chosen, struct td_error *err);
int td_op_list_sample(struct td_op_list *list, int64_t max, struct td_error *err);
/* Of each group keep the chosen ops that come first in its order, at most keep[group] of them. Returns
 * how many are not chosen any more. The order is there. */
int64_t td_op_list_keep(struct td_op_list *list, const int64_t *keep);
/* The chosen ops that are not done, in an order in which those with equal weights are neighbours: *n places in
 * items, from malloc. NULL: out of memory. */
int32_t *td_op_list_by_weights(const struct td_op_list *list, size_t *n);
/* Count the turns anew, after others were chosen. The order is there. */
void td_op_list_give_turns(struct td_op_list *list);

#endif
