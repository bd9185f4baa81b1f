/* op_variety.h - how varied the data of the replayed ops is: a fault that no data would show is not found.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taken of each product while its tensors are in memory: a few words for each kind, and a bit for each expert
 * of a weight, whatever the number of ops. All of it are unions, greatest values and greatest divisors, so
 * that neither the order of the ops, nor the number of threads, nor a reference that was found in the cache
 * changes them. They depend on the recording and on which ops are replayed. They are written into the
 * replay's manifest (docs/format.md, "replay.variety"), from where differ says what no op could show. */
#ifndef TD_REPLAYER_OP_VARIETY_H
#define TD_REPLAYER_OP_VARIETY_H

#include <cjson/cJSON.h>

#include "replayer/op_item.h"

#define TD_VARIETY_MAX_KINDS 16
#define TD_VARIETY_MAX_WEIGHTS 65536 /* of these the experts are known; with more nothing is said of experts */

/* Does something of a weight vary within it? */
enum td_varies {
    TD_VARIES_ABSENT,    /* no weight has it */
    TD_VARIES_NOT,       /* not in any weight */
    TD_VARIES            /* in one weight at least */
};

struct td_variety_kind {
    char kind[TD_OP_MAX_KIND];
    int64_t ops;
    enum td_varies zero_points, scales;
    enum td_varies order;           /* of g_idx; NOT: rows of all weights lie in the order of their groups */
    int64_t zero_point;             /* of all weights; -1: they differ */
    int64_t n_divisor, k_divisor;   /* greatest, of all N, of all K */
    unsigned m_classes;             /* bits: td_m_class() */
    double largest_a, largest_sum;  /* |a| of products with unscaled weights; |A||W| of others; both of ops in
                                       float16 alone. 0: there is none */
    int64_t experts, routed;        /* of all weights; those that a row was routed to */
};

struct td_op_variety {
    struct td_variety_kind kind[TD_VARIETY_MAX_KINDS];
    int n;
    struct td_variety_weight *weights; size_t n_weights, cap; /* a hash table */
    bool full;                      /* a weight or a kind found no room */
};

/* Add an op that was loaded, found fit and judged; any other is left out. */
void td_op_variety_add(struct td_op_variety *v, const struct td_op_item *it);
/* Find what can overflow in float16: fill it->largest_a or it->largest_sum. Any thread may do it.
 *   ref : of the recorded output; NULL: there is none */
void td_op_variety_find_largest(struct td_op_item *it, const struct td_op_ref *ref);
/* As it is written; the caller frees it. NULL: out of memory. */
cJSON *td_op_variety_json(const struct td_op_variety *v);
void td_op_variety_release(struct td_op_variety *v);

#endif
