/* send_requests.h - send the requests of a recording, and pass on what comes back.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_SEND_REQUESTS_H
#define TD_RECORDER_SEND_REQUESTS_H

#include "recorder/recording.h"

/* A td_derive_emit_fn; arg is a struct td_recording. Every exchange ends here: it is written,
 * scored, summed up. */
int td_recording_receive(void *arg, struct td_exchange *x, struct td_error *err);

/* Send a plan, and count its requests in the ledger. 0 also when interrupted, or when the server is
 * gone: the recording then says so. progress : the words of the progress bar; NULL: none is
 * shown */
int td_recording_send_plan(struct td_recording *r, const struct td_plan *plan, const char *progress,
                           struct td_error *err);

/* Send the timed repeats from `from` on, one closed loop, until `over_ns` (monotonic). The plan grows with each repeat that
 * begins. *repeats: how many were planned. */
int td_recording_send_until(struct td_recording *r, int64_t from, int64_t over_ns, int64_t *repeats, struct td_error *err);

/* Send the suite: repeats [from, from + repeats) of a phase. */
int td_recording_send_phase(struct td_recording *r, enum td_phase phase, int64_t from,
                            int64_t repeats, const char *progress, struct td_error *err);

/* Send the requests of --warmup: the prompts in turn, answered in full, in the phase of the warm-up. */
int td_recording_send_warmup(struct td_recording *r, struct td_error *err);

/* Send the first n prompts once, their answers cut to `tokens`, as this repeat of the warm-up. */
int td_recording_send_some(struct td_recording *r, size_t n, int32_t tokens, int32_t repeat,
                           struct td_error *err);

/* Send the first prompt once, its answer cut to `tokens`. */
int td_recording_send_first(struct td_recording *r, enum td_phase phase, int32_t tokens,
                            struct td_error *err);

#endif
