/* flight_facts.h - dumps of the flight recorders, and the first op with a bad output.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_FLIGHT_FACTS_H
#define TD_RECORDER_TAP_CLIENT_FLIGHT_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/fixture.h"
#include "recorder/tap_client/received_op.h"

/* The first op whose output holds a value that is not finite, or only zeros though its inputs do
 * not. */
struct client_first_bad {
    bool found;
    int64_t t_ns, op, m, n, k;
    uint64_t values, not_finite, in_not_finite; /* of the output; of the inputs */
    char layer[512], symbol[TAP_SYMBOL];
};

struct client_flight { cJSON *dumps; struct client_first_bad bad; }; /* zeroed: none */

/* A flight recorder's dump begins. False: the record does not hold together. */
bool client_flight_read_dump(struct client_flight *f, struct td_writer *w, int pid,
                             const struct tap_dump *rec);
/* The reason of the dump that an op came with, as a phrase for the fixture; NULL: it came with
 * none. */
const char *client_flight_reason(const struct tap_op *rec);
/* Look at the output of an op that was written as number `number`: is it the first bad one? layer
 * NULL: it has no name. */
void client_flight_check_op(struct client_flight *f, const struct client_op *op, const char *layer,
                            int64_t number);
/* Describe the first bad op in a sentence. False: there is none. */
bool client_flight_describe_bad(const struct client_flight *f, char *to, size_t n);
/* Write fact "flight" of the manifest's section "tap". mib : the ring's size; 0: there was none.
 * Releases f->dumps. */
void client_flight_facts(struct client_flight *f, uint32_t mib, struct td_writer *w);

#endif
