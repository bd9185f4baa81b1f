/* client_lag.h - how late a client sent what it meant to send at a time, and whether that says too much
 * about the client for its figures to be the server's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each such request has two starts: the intended one (due_ns), and the actual one (start_ns), at which the
 * client began to send. Their distance is the lag. Latency from the intended start holds what a user
 * would have waited; from the actual one, what the server took. A client whose lag is large beside the
 * time between two tokens is the limit itself: then no speed of the server is judged by it. */
#ifndef TD_WIRE_CLIENT_LAG_H
#define TD_WIRE_CLIENT_LAG_H

#include <stdbool.h>
#include <stdio.h>

#include "common/samples.h"
#include "format/records.h"

#define TD_CLIENT_LAG_SHARE 0.1 /* of the median ITL, or TTFT where no answer has two tokens: a p99 above it limits */

struct td_client_lag {            /* zeroed: none */
    struct td_samples lag_ns, itl_ns;
    struct td_samples ttft_due_ns, ttft_start_ns; /* from the intended, and from the actual start */
    int64_t held;                 /* requests that were held back, since as many as can be were in flight */
    int64_t due_first_ns, due_last_ns, start_first_ns, start_last_ns;
};

/* Add a timed request. One that was not meant to be sent at a time is left out. */
void td_client_lag_add(struct td_client_lag *l, const struct td_exchange *x);
void td_client_lag_release(struct td_client_lag *l);
/* The lag's p99 is above that share, or requests were held back, or it is not known, for memory lacked for the times of some.
 * False without an answer whose times are known. Sorts. */
bool td_client_lag_limits(struct td_client_lag *l);
/* Say the lag in a sentence's part: "sent 0.05 / 0.10 / 0.31 ms late (p50/p90/p99)". Returns out; "" without requests. */
const char *td_client_lag_words(struct td_client_lag *l, char *out, size_t n);
/* Why no speed is judged, as a sentence without a full stop. Returns out. */
const char *td_client_lag_limit_words(struct td_client_lag *l, char *out, size_t n);
/* Print lag, latencies from both starts, and whether the client limits. Nothing without requests.
 *   head        : of the first line, "lag      "; others are indented as far
 *   tells_limit : false: the caller says in another place that the client limits */
void td_client_lag_print(struct td_client_lag *l, const char *head, bool tells_limit, FILE *to);

#endif
