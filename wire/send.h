/* send.h - send a plan of requests. Used by record (a suite) and replay (a recording).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_SEND_H
#define TD_WIRE_SEND_H

#include <signal.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/turns.h"
#include "format/fixture.h"
#include "wire/api.h"
#include "wire/derive.h"
#include "wire/send_plan.h"

/* Where a turn is all of a plan, its requests begin this far apart, unless they have times of their own. With more than ten in flight
 * they begin closer to each other, so that all of these do within TD_SEND_ALL_NS. */
#define TD_SEND_APART_NS (2 * TD_NS_PER_MS)
#define TD_SEND_ALL_NS (20 * TD_NS_PER_MS)

struct td_send_stats;
/* Append requests to the plan that is being sent (what was sent of it is given back), or none: then the sending ends.
 * `so_far` has what was counted until now. */
typedef int td_send_more_fn(void *arg, const struct td_send_stats *so_far, struct td_error *err);

struct td_send_options {
    const struct td_api_server *server;
    const char *const *headers;    /* as td_client_options */
    int connect_timeout_ms, total_timeout_ms, idle_timeout_ms;
    int64_t max_answer_bytes;      /* as td_client_options */
    struct td_writer *writer;      /* gets notes and bytes; NULL: none */
    td_derive_emit_fn *emit; void *emit_arg; /* gets exchanges, derived between groups; or NULL */
    const char *const *allow_paths; /* allowed beside the dialect's (allowed_requests.h); or NULL */
    bool own_connections;          /* as td_client_options */
    bool recorded_connections;     /* requests whose recorded connection is told go over one of their own */
    bool keep_salt;                /* do not renew cache_salt */
    void (*request_id)(void *arg, uint32_t stream, char out[64]); void *request_id_arg; /* X-Request-Id, or NULL */
    uint32_t first_stream;         /* number of the first request */
    td_send_more_fn *more; void *more_arg; /* asked for more where all of a closed loop was sent; or NULL */
    struct td_plan *growing;       /* with `more`: the plan itself */
    struct td_turns *turns;        /* with another sender, on another server: a turn is one request where the plan sends one by one,
                                      else all of the plan. NULL: there is no other */
    const volatile sig_atomic_t *stop;
    bool (*alive)(void *arg); void *alive_arg; /* does the server's process run? asked between
                                      groups and at failures; or NULL */
    const char *progress;          /* NULL: silent */
    bool show_size;                /* say in the progress how large the writer's fixture has become */
};

struct td_send_stats {
    int64_t sent, failed, unsent;  /* failed: the transfer itself (connect, timeout, cut), not an HTTP status */
    int64_t bytes_sent, bytes_received, records;
    int64_t lag_max_ns, lag_sum_ns, lag_n; /* sent later than planned; only for items with at_ns >= 0 */
    uint32_t next_stream;
    int64_t t_start_ns, t_end_ns;
    bool interrupted, server_gone;
    int64_t turns;                 /* that were taken; 0: there is no other sender */
    int64_t lost_in_row;           /* of those that ended last: failed, or answered with an HTTP error */
    int64_t unseen;                /* of failed: for what this machine lacks (open files, memory, ports) */
    bool no_files;                 /* requests are unsent since this machine has no open files left */
};

/* Send the plan. Nothing is sent when it holds a request that is not allowed: TD_EINVAL. The wire
 * log gets, for each request, the open note, its bytes and the close note. Failed requests are no
 * error here: stats and exchanges show them. Once the server's process is gone, or all requests of
 * two groups in a row could not connect or timed out, or twice as many as a closed loop has in flight,
 * the rest is not sent: those requests are noted
 * as failed ("server", "connect", "timeout") and counted in `unsent`. TD_OK; TD_EINTR: stopped, requests in flight are closed as "cut", the rest is not
 * noted; TD_EIO: the writer failed; else what the deriver or emit returned. stats is filled in any
 * case. */
int td_send_plan(const struct td_plan *plan, const struct td_send_options *opt, struct td_send_stats *stats,
                 struct td_error *err);

/* Can this machine have all requests of a group in flight at once? As td_open_files_ensure(); also
 * asked by td_send_plan(). */
int td_send_check_files(const struct td_plan *plan, struct td_error *err);

/* Was this request cut off since the user stopped the program? It says nothing about the server. */
bool td_send_was_stopped(const struct td_exchange *x);

#endif
