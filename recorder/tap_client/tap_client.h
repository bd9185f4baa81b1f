/* tap_client.h - the recorder's end of the tap: find it, arm it, store what it sends.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The order of a recording:
 *   1. start the server with the environment of server_env.h (or the user did, after
 *      eval "$(record --tap-env)")
 *   2. send one warm-up request: the tap's socket exists from the server's first op on
 *   3. td_tap_client_open(): port -> process and its children -> a socket each; greeting,
 *      versions, shared memory
 *   4. timed repeats with the tap asleep, then td_tap_client_arm(), the repeats marked "tapped",
 *      td_tap_client_disarm()
 *   5. td_tap_client_close(), before td_writer_close(): it writes the last ops and counts
 * Requests of step 4 carry the ids of request_ids.h. client_ledger.h lists what is counted.
 *
 * All functions are called from one thread, unless they say otherwise. */
#ifndef TD_RECORDER_TAP_CLIENT_TAP_CLIENT_H
#define TD_RECORDER_TAP_CLIENT_TAP_CLIENT_H

#include "common/error.h"
#include "format/fixture.h"
#include "recorder/tap_client/step_rows.h"
#include "recorder/tap_client/tap_client_options.h"

struct td_tap_client;

/* Find the taps, connect, and share memory; the taps stay asleep. TD_ENOTFOUND: no tap is there
 * (the sentence says why, and how to get one); TD_EVERSION; TD_EPROTO; TD_EEXIST: another recorder
 * is connected, and stays for two seconds more. Of several processes one is enough. */
int td_tap_client_open(const struct td_tap_client_target *target,
                       const struct td_tap_client_options *opt, struct td_tap_client **out,
                       struct td_error *err);

/* Arm every process: steps that begin from now on are recorded. May be called again with another
 * mode. TD_OK when at least one process is armed. Mode TD_TAP_CLIENT_OFF disarms. */
int td_tap_client_arm(struct td_tap_client *c, const struct td_tap_client_mode *mode,
                      struct td_error *err);

/* Put the taps to sleep, at most 20 s for each process to answer, then write what they sent. Safe
 * when a server is gone. */
int td_tap_client_disarm(struct td_tap_client *c, struct td_error *err);

/* The ops that come while the taps are armed next are a rehearsal (seen_outputs.h), or are no longer. Call it while
 * disarmed. */
void td_tap_client_rehearse(struct td_tap_client *c, bool begins);

/* Have the taps of an NVIDIA GPU time its kernels for ms from now on (5000 at most), while nothing is
 * armed. False: none does; td_tap_client_state() says why, if there is one that could. */
bool td_tap_client_gpu_time_begin(struct td_tap_client *c, int ms);
/* End that, if ms are not over, and read what was measured. */
void td_tap_client_gpu_time_end(struct td_tap_client *c);

/* An answer is over that the server named so: its rows are this exchange's, which was in flight from then to
 * then, by the clock of the ops. Only with opt.server_ids. False: there is no room for its id, so its rows are
 * nobody's. Thread-safe. */
bool td_tap_client_add_answer(struct td_tap_client *c, const char *id, int64_t stream, int64_t from_ns, int64_t to_ns);

/* Name the rows of steps that came without names (step_rows.h), from the requests that there were,
 * and write these steps. Call it once, when disarmed. requests : are sorted. c NULL is allowed. */
void td_tap_client_name_rows(struct td_tap_client *c, struct td_rows_request *requests, size_t n);

/* Disarm if need be, and write what is left: after this td_tap_client_state() is final. Returns the
 * first failure of the client's whole life. NULL is allowed. */
int td_tap_client_end(struct td_tap_client *c, struct td_error *err);

/* End as td_tap_client_end() does, unless that was called, and disconnect. Returns the first failure of the client's
 * whole life. NULL is allowed. */
int td_tap_client_close(struct td_tap_client *c, struct td_error *err);

/* Dump the flight recorders' rings, because an answer collapsed. False: there is none, or one is
 * being dumped already. */
bool td_tap_client_dump_flight(struct td_tap_client *c);

/* Describe in a sentence the earliest op recorded so far whose output is not finite, or all zero.
 * Only with a flight recorder. False: there is none. Thread-safe. */
bool td_tap_client_first_bad(struct td_tap_client *c, char *to, size_t n);

/* Describe what --layers did not find: items that fit no layer's name, ops without a name. False:
 * nothing. Thread-safe. */
bool td_tap_client_report_layers(struct td_tap_client *c, char *to, size_t n);

/* The counts so far. Thread-safe. */
void td_tap_client_state(struct td_tap_client *c, struct td_tap_client_state *out);

/* Write section "tap" of the manifest: present, protocol, pid, library, build, mode, processes[] …
 * c NULL: present false and the reason. Call it once connected, and again after the last arm
 * (mode). */
void td_tap_client_facts(struct td_tap_client *c, struct td_writer *w, const char *reason);

#endif
