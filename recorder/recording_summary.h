/* recording_summary.h - what `record` prints at its end: medians and counts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It also names what is not in the fixture. */
#ifndef TD_RECORDER_RECORDING_SUMMARY_H
#define TD_RECORDER_RECORDING_SUMMARY_H

#include <stdint.h>
#include <stdio.h>

#include "common/samples.h"
#include "format/records.h"
#include "wire/client_lag.h"
#include "recorder/tap_client/tap_client_options.h"

struct td_phase_summary {
    int64_t requests, failed, tokens;
    int64_t complete_tokens;       /* of requests that did not fail: what tokens/s counts (docs/metrics.md) */
    struct td_samples ttft_ns, itl_ns;
    int64_t t_first_ns, t_last_ns; /* first byte sent, last byte read */
    char first_error[200];         /* of its requests; "": none failed */
};

struct td_recording_summary {     /* zeroed: nothing */
    struct td_phase_summary phase[3]; /* by enum td_phase */
    struct td_client_lag lag;     /* of requests that were meant to be sent at a time */
    int64_t collapsed;            /* answers with a hard sign of collapse, warm-up not counted */
    int64_t ids_incomplete, without_logprobs;
    char first_error[300], first_collapse[300];
};

void td_recording_summary_add(struct td_recording_summary *s, const struct td_exchange *x);
void td_recording_summary_release(struct td_recording_summary *s);

/* Print the table of phases, then what is known of ops. Sorts the samples. That the client limits is a warning of the
 * caller's.
 *   ops    : counts of the tap client; NULL: there was no tap
 *   all    : every op was asked for, not a sample
 *   no_tap : why, in a few words */
void td_recording_summary_print(struct td_recording_summary *s, size_t prompts,
                                const struct td_tap_client_state *ops, bool all,
                                const char *no_tap, FILE *to);

#endif
