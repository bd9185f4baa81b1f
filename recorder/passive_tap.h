/* passive_tap.h - the tap beside a passive recording: the ops of the traffic that is captured.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The taps are armed while packets are read. Nothing is sent, so no request carries an id of ours. The
 * rows of a step find their exchanges in two ways:
 *   - where the server names them, by its own id of each request, which its answer holds, too: exact;
 *   - else from when requests came and went, their lengths, and the rows of steps (step_rows.h), where
 *     that comes out exactly. Nothing is guessed, and from the first request on that reached the server
 *     and is no exchange here, nothing is inferred.
 * Times of steps and ops are put on the clock of the packets. */
#ifndef TD_RECORDER_PASSIVE_TAP_H
#define TD_RECORDER_PASSIVE_TAP_H

#include "format/fixture.h"
#include "recorder/ops_causes.h"
#include "recorder/tap_client/step_rows.h"

struct td_tap_client;

struct td_passive_tap {           /* zeroed: none, and all functions do nothing */
    struct td_tap_client *client;
    struct td_rows_requests requests;
    int64_t shift_ns;             /* from the taps' clock to that of the packets */
    bool has_stranger, no_memory;
    int64_t unnamed;              /* answers whose ids were not kept */
    char no_tap[512];             /* why there is none */
    struct td_tap_client_state ops; /* at the end */
    char failure[200];            /* why not all that the tap sent was written; "": it was */
};

/* Find the taps of the server, arm them, and write section "tap" of the manifest.
 *   server : HOST:PORT
 * TD_ENOTFOUND: there is none, and o requires one; without that the reason is in no_tap, and a warning is
 * logged. */
int td_passive_tap_arm(struct td_passive_tap *t, const struct td_record_options *o, const char *server, struct td_writer *w,
                       const volatile sig_atomic_t *stop, struct td_error *err);
/* An exchange is over. */
void td_passive_tap_add(struct td_passive_tap *t, const struct td_exchange *x);
/* A request came that may make the server compute, and that is no exchange here. t_ns: of the packets */
void td_passive_tap_stranger(struct td_passive_tap *t, int64_t t_ns);
/* The recording ends: what the server computes from now on is not recorded. */
void td_passive_tap_disarm(struct td_passive_tap *t);
/* All exchanges are there: name the rows of steps, write the rest, and disconnect. */
void td_passive_tap_end(struct td_passive_tap *t);
/* Free what is left. */
void td_passive_tap_release(struct td_passive_tap *t);

#endif
