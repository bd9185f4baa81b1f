/* time_spent.h - what a program's threads spend their time on, for a line in the log.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A span has a name and adds up over all threads of the process; so a span that several threads work on at once may be longer than the
 * program ran. */
#ifndef TD_COMMON_TIME_SPENT_H
#define TD_COMMON_TIME_SPENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"

enum td_time_span {
#define TD_TIME_SPANS(X)                                                                                                     \
    X(READ_RECORDS, "records") X(READ_BLOBS, "tensors")                                                                     \
    X(RUN_PACK, "packing") X(RUN_WAIT, "waiting for the build's process") X(RUN_IMAGES, "taking outputs")                   \
    X(BUILD_LOAD, "loading") X(BUILD_PREPARE, "preparing") X(BUILD_RUN, "running") X(BUILD_FETCH, "fetching")               \
    X(BUILD_RELEASE, "releasing")                                                                                           \
    X(REF_IDLE, "idle") X(REF_WEIGHTS, "weights") X(REF_ROWS, "rows") X(REF_KERNEL, "kernel") X(REF_SUMS, "sums")           \
    X(JUDGE_SLOT, "waiting for a slot") X(JUDGE_JOB, "waiting for sums") X(JUDGE_COPY, "copying sums")                      \
    X(JUDGE_SAMPLE, "sample") X(JUDGE_WHOLE, "whole") X(JUDGE_REFERENCES, "references in all") X(JUDGE_OUTPUTS, "outputs") \
    X(JUDGE_VARIETY, "variety")
#define TD_TIME_NAME(name, words) TD_TIME_##name,
    TD_TIME_SPANS(TD_TIME_NAME)
#undef TD_TIME_NAME
    TD_TIME_SPANS_N
};

/* Add what went by since from_ns (td_clock_mono_ns), or a time that is known. Returns the clock, for the next span. Thread-safe. */
int64_t td_time_spent(enum td_time_span span, int64_t from_ns);
void td_time_spent_ns(enum td_time_span span, int64_t ns);
/* "records 0.12 s, tensors 3.40 s": the spans from first to last. Returns out. */
const char *td_time_spent_words(enum td_time_span first, enum td_time_span last, char *out, size_t size);

#endif
