/* step_rows.h - infer whose rows a step computed, where the server does not tell (vLLM, llama.cpp).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The evidence: when each request came and went, how long it was, and how many rows each step had.
 * A request of p prompt tokens and g tokens of answer is p rows, then g - 1 times one row.
 *
 * Requests that were in flight together are a group. The steps of a group are walked in order of
 * time: each running answer has one row, and what is left must be the whole prompts whose first
 * tokens came next. A group stays unknown, all of it, where this does not come out exactly, or
 * comes out in more than one way. Reasons are prompts in pieces (llama.cpp, long prompts), a
 * preempted request, a cached prefix, equal prompts begun one after the other, somebody else's
 * request, a sample of steps.
 *
 * A request that was alone is simpler: its prompt may come in pieces. Where only some of its steps
 * are there, and all of them could be its own, they are given to it, at positions that are not
 * known.
 *
 * What cannot be seen: somebody else's rows in the padding of a graph, or in place of steps that
 * are missing. */
#ifndef TD_RECORDER_TAP_CLIENT_STEP_ROWS_H
#define TD_RECORDER_TAP_CLIENT_STEP_ROWS_H

#include "format/fixture.h"

struct td_rows_request {
    int64_t stream;               /* the exchange */
    int64_t sent_ns, first_ns, end_ns; /* first_ns: of the first token */
    int64_t prompt, generated;    /* tokens; -1: not known. prompt: without those of a cached prefix */
    bool stopped;                 /* by itself, not by its length: a server may have begun one step
                                     more */
    int64_t cached;               /* tokens of a cached prefix: its rows begin behind them */
    bool at_once;                 /* the answer was not streamed: its first token came before first_ns */
};

/* zeroed: none; x is freed by the caller */
struct td_rows_requests { struct td_rows_request *x; size_t n, cap; };

/* Add a request. False: out of memory. */
bool td_rows_add(struct td_rows_requests *all, const struct td_exchange *x);

struct td_rows_step {
    struct td_step step;          /* in: how is unknown, no spans; both and padding are filled in */
    int64_t begun_ns;             /* when its first op was called; 0: no op came. step.t_ns may be
                                     later: of a GPU, when it was sent */
    int64_t rows;                 /* the most that an op with weights had; -1: no op came */
    bool padded;                  /* a CUDA graph: the last of these rows may be nobody's */
};

/* Name the rows of steps.
 *   steps    : [n_steps] of one process, in any order; are sorted by time
 *   requests : [n_requests], in any order; are sorted by time
 *   guess    : of a request that was alone, and some of whose steps are missing, name those that are
 *              there, too
 * Returns how many steps have spans now; -1: out of memory. A step of one request has its rows in
 * order; of a step of several it is not known which rows are whose: first_row is -1. Time: steps x
 * requests in flight together. At most 4 million spans are made; steps beyond that stay unknown. */
int64_t td_rows_infer(struct td_rows_step *steps, size_t n_steps, struct td_rows_request *requests,
                      size_t n_requests, bool guess);

#endif
