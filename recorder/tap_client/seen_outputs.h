/* seen_outputs.h - which outputs of ops repeat bit for bit, and need not be stored (`record --outputs digest`).
 * SPDX-License-Identifier: Apache-2.0
 *
 * The suite is sent once more beforehand, with the taps armed: the rehearsal. Of its ops nothing is stored; what
 * each gave is remembered, by a hash of all that it was given. An op that is recorded later and was given the same,
 * and gave the same, repeats: of its output a digest is enough to tell whether a new build gives it, too.
 *
 * Of each kernel, set of weights and octave of M the outputs of CLIENT_OUTPUTS_WHOLE different ops are stored all
 * the same. By these the judge knows the baseline's errors. They are chosen by chance, from a fixed seed, among all that were
 * rehearsed: the first ones would be those of the first requests, and show nothing of a fault that comes with longer ones.
 */
#ifndef TD_RECORDER_TAP_CLIENT_SEEN_OUTPUTS_H
#define TD_RECORDER_TAP_CLIENT_SEEN_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/hash.h"
#include "format/records.h"
#include "recorder/tap_client/received_op.h"

#define CLIENT_OUTPUTS_WHOLE 6             /* the least that a bias is judged by (docs/verdicts.md) */
#define CLIENT_OUTPUTS_MAX ((size_t)1 << 20) /* ops that are remembered, and groups: 96 MiB each; of others all outputs are stored */

struct client_seen {                       /* all zero: empty */
    struct td_hash key, output;
    uint32_t group;                        /* of an op: the number of its group, which a group has, too */
    uint32_t lot;                          /* of an op: the lowest of a group are stored */
    bool varies, whole;                    /* it gave two outputs; its output is stored */
};

struct client_seen_table { struct client_seen *slot; size_t n, cap; };

struct client_outputs {                    /* zeroed: nothing was rehearsed, and every output is stored */
    bool rehearses;
    struct client_seen_table ops, groups;
    int64_t rehearsed;                     /* ops */
    bool full;                             /* there was no room for more */
    bool chosen;                           /* it was decided which outputs are stored */
};

/* The ops that come are a rehearsal.
 *   op      : has the bytes of its output
 *   weights : [n] of its weights, as they are stored */
void client_outputs_rehearse(struct client_outputs *o, const struct client_op *op, const struct td_tensor_rec *weights, int n);

/* Is a digest of the op's output enough? Then *digest holds it. False: the output is to be stored, for it does not
 * repeat, or was not seen before, or the judge needs it. */
bool client_outputs_repeat(struct client_outputs *o, const struct client_op *op, const struct td_tensor_rec *weights, int n,
                           struct td_hash *digest);

void client_outputs_release(struct client_outputs *o);

#endif
