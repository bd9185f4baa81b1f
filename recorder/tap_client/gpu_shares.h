/* gpu_shares.h - the share of each kernel in the GPU's time, as the taps measured it in a window.
 * SPDX-License-Identifier: Apache-2.0
 *
 * From the thread that sends messages to the taps; facts and state with the client's lock held. */
#ifndef TD_RECORDER_TAP_CLIENT_GPU_SHARES_H
#define TD_RECORDER_TAP_CLIENT_GPU_SHARES_H

#include "format/fixture.h"
#include "recorder/tap_client/tap_client_options.h"
#include "recorder/tap_client/tap_connection.h"

#define CLIENT_SHARES_MAX 1024u        /* names; a tap tells TAP_TIMES_KERNELS at most */

struct client_share { int64_t n, ns; enum tap_seen seen; char *symbol; };
/* Of all processes; zeroed: there was no window. */
struct client_shares {
    struct client_share *all; uint32_t n;
    int64_t launches, ns, lost;        /* lost: launches without a time */
    int64_t window_ns;                 /* the longest */
    bool asked;
    char why[TAP_TEXT + 64];           /* why a process has none; "": all have */
};

#define CLIENT_SHARES_ANSWER_MS 20000  /* CUPTI may take seconds to begin */

/* Open a window of ms in this process. False: not there; why says the reason. */
bool client_shares_begin(struct client_shares *s, struct client_tap *tap, uint32_t ms);
/* Close it, and add what it holds. A kernel that one process records and another does not is
 * unknown. */
void client_shares_end(struct client_shares *s, struct client_tap *tap);
/* When all have ended: those that took longest come first. */
void client_shares_sort(struct client_shares *s);

void client_shares_state(const struct client_shares *s, struct td_tap_client_gpu_time *out);
/* Write fact gpu_time of the manifest's section "tap", if a window was asked for. */
void client_shares_facts(const struct client_shares *s, struct td_writer *w);
void client_shares_release(struct client_shares *s);

#endif
