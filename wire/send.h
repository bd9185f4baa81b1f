/* send.h - sending a plan of requests: order, groups, times. Used by record (a suite) and replay (a recording).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_SEND_H
#define TD_WIRE_SEND_H

#include <signal.h>

#include "common/error.h"
#include "format/fixture.h"
#include "wire/api.h"
#include "wire/derive.h"

/* One request. The members of a group are put in flight together; the next group waits until they are done. */
struct td_plan_item {
    char *prompt_id, *category, *api, *method, *path;
    char *role;               /* NULL or "": an ordinary request; "ids": it is asked for the token ids of others (whole.h), "scores": see scores.h */
    char *body; size_t body_len;
    int32_t repeat, concurrency;
    int32_t scored_from;      /* of role "scores": where the recorded answer begins; else 0 */
    enum td_phase phase;
    int64_t group;
    int64_t at_ns;            /* after the plan's start; -1: as soon as the group before is done */
};
struct td_plan { struct td_plan_item *items; size_t n, cap; };
#define TD_PLAN_INIT {NULL, 0, 0}

/* Strings and body are copied. TD_ENOMEM, TD_ELIMIT. */
int td_plan_add(struct td_plan *p, const struct td_plan_item *item, struct td_error *err);
void td_plan_release(struct td_plan *p);
int64_t td_plan_next_group(const struct td_plan *p);   /* largest group + 1 */
/* Append the requests of a recording, in the order in which they were sent, with their groups (the recorded one, else
 * exchanges whose times overlapped and that asked for the same concurrency). Bodies are written from `request`; exchanges
 * without a JSON request are counted in *skipped. speed: 0 as soon as possible, 1 at the recorded times, N times faster.
 * xs : [n], any order, borrowed. phases: bit mask of 1 << enum td_phase. */
int td_plan_from_exchanges(const struct td_exchange *xs, size_t n, unsigned phases, double speed, struct td_plan *p,
                           size_t *skipped, struct td_error *err);

/* Take the members that the server refuses (its `without`) out of all bodies. TD_ENOMEM. */
int td_plan_strip(struct td_plan *p, const struct td_api_server *server, struct td_error *err);

struct td_send_options {
    const struct td_api_server *server;
    const char *const *headers;    /* as td_client_options */
    int connect_timeout_ms, total_timeout_ms, idle_timeout_ms;
    struct td_writer *writer;      /* gets notes and bytes; NULL: none */
    td_derive_emit_fn *emit; void *emit_arg; /* exchanges, derived between groups, off the hot path; NULL: none */
    bool keep_salt;                /* do not renew cache_salt (td_api_resalt) */
    void (*request_id)(void *arg, uint32_t stream, char out[64]); void *request_id_arg; /* X-Request-Id, or NULL */
    uint32_t first_stream;         /* number of the first request */
    const volatile sig_atomic_t *stop;
    bool (*alive)(void *arg); void *alive_arg; /* NULL, or asked between groups and at failures: is the server's process there? */
    const char *progress;          /* NULL: silent */
};

struct td_send_stats {
    int64_t sent, failed, unsent;  /* failed: the transfer itself (connect, timeout, cut), not an HTTP status */
    int64_t bytes_sent, bytes_received, records;
    int64_t lag_max_ns, lag_sum_ns, lag_n; /* sent later than planned; only for items with at_ns >= 0 */
    uint32_t next_stream;
    int64_t t_start_ns, t_end_ns;
    bool interrupted, server_gone;
};

/* Send the plan. For each request: the open note, its bytes, the close note. TD_OK also when requests failed: stats and
 * exchanges say so. Once the server's process is gone, or two groups in a row cannot connect or time out without one byte
 * of an answer, the rest is not sent: those requests are noted as failed ("server", "connect", "timeout") and counted in
 * `unsent`.
 * TD_EINTR: stopped; what was in flight is closed as "cut", the rest is not noted. TD_EIO: the writer failed; else what the
 * deriver or emit returned. stats is filled in any case. */
int td_suite_run(const struct td_plan *plan, const struct td_send_options *opt, struct td_send_stats *stats,
                 struct td_error *err);

#endif
