/* rows.h - whose rows a forward pass computed, where the server does not say (vLLM, llama.cpp): inferred from when requests came and went, how long they were, and how many rows passes had.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A request of p prompt tokens with g tokens of answer is p rows and then g - 1 times one row. Requests that were in flight together are a group; its passes are gone through in order of
 * time: each running answer has one row, what is left must be the whole prompts whose first tokens came next. A group for which it does not come out exactly, or in more than one way (prompts
 * in pieces, as llama.cpp and long prompts have them, a preempted request, a cached prefix, equal prompts begun one after the other, somebody else's request, a sample), stays unknown, all
 * of it. Of a request that was alone the prompt may be in pieces; and where all its passes could be its own but some are missing, they are taken for its own, at positions that are not known.
 * What cannot be seen: somebody else's rows in the padding of a graph, or in place of passes that are missing. */
#ifndef TD_RECORDER_TAP_CLIENT_STEP_ROWS_H
#define TD_RECORDER_TAP_CLIENT_STEP_ROWS_H

#include "format/fixture.h"

struct td_rows_request {
    int64_t stream, sent_ns, first_ns, end_ns; /* first_ns: of the first token */
    int64_t prompt, generated;    /* tokens; -1: not known */
    bool stopped;                 /* by itself: a server may have begun one pass more */
};

struct td_rows_requests { struct td_rows_request *x; size_t n, cap; }; /* zeroed: none */

/* What there is to know of a request. False: no memory. */
bool td_rows_add(struct td_rows_requests *all, const struct td_exchange *x);

struct td_rows_step {
    struct td_step step;          /* how: unknown, no spans; both are filled in */
    int64_t begun_ns;             /* when its first op was called; 0: none came. step.t_ns may be later: of a GPU it is when the step was sent */
    int64_t rows;                 /* the most that an op with weights had; -1: none came */
    bool padded;                  /* a CUDA graph: of these rows the last may be nobody's */
};

/* passes : of one process, any order; they are sorted by time. requests : are sorted too. How many passes have spans now; -1: no memory. A pass of one request has its rows in
 * order; of a pass of several it is not known which rows are whose: first_row -1. Time: passes x requests in flight together; at most 4 million spans are made, then all is unknown. */
int64_t td_rows_infer(struct td_rows_step *passes, size_t n_passes, struct td_rows_request *requests, size_t n_requests);

#endif
