/* operator_counts.h - count the operators of torch that a server called, by name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_OPERATOR_COUNTS_H
#define TD_RECORDER_TAP_CLIENT_OPERATOR_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/fixture.h"
#include "recorder/tap/core/tap_proto.h"
#include "recorder/tap_client/name_index.h"
#include "recorder/tap_client/tap_client_options.h"

#define CLIENT_OPERATORS_MAX 1024u    /* names and keys; vLLM 0.26 registers 125 */

struct client_operator {
    char name[TAP_OPERATOR], key[TAP_OPERATOR_KEY];
    int64_t calls, bytes;             /* bytes: of their tensors */
    bool known;                       /* the tap records its calls as ops */
};
/* Of all processes; zeroed: none. nameless: calls of operators beyond CLIENT_OPERATORS_MAX. */
struct client_operators {
    struct client_operator *all; uint32_t n; int64_t nameless;
    struct client_index index;        /* of `all`, by name and key; gone once that is sorted */
};

/* Add the calls of one operator. False: the record does not hold together. */
bool client_operators_read(struct client_operators *o, const struct tap_operator *rec);
/* Fill operators, operator_calls and most_called of *out, by those that are not recorded. */
void client_operators_state(const struct client_operators *o, struct td_tap_client_state *out);
/* Write the fact operators of the manifest's section "tap", those called most first, and
 * operators_left_out (calls of others, if there are any). Sorts. */
void client_operators_facts(struct client_operators *o, struct td_writer *w);
void client_operators_release(struct client_operators *o);

#endif
