/* store_weights.h - identify the weights of an op, and store them in the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_STORE_WEIGHTS_H
#define TD_RECORDER_TAP_CLIENT_STORE_WEIGHTS_H

#include "model/identify/weight_set.h"
#include "recorder/tap_client/client_state.h"

/* The weights of one layer as its ops in the fixture have them. */
struct client_weight_set {
    char *layer;                      /* NULL: unknown */
    bool named_by_call;               /* ops of the set have names of their own */
    bool layout_unknown;              /* they are stored as the server had them */
    bool unwanted;                    /* by its layer's name: nothing of it is stored */
    struct td_tensor_rec t[TD_OP_MAX_STORED_WEIGHTS]; int n;
    struct td_attr extra[TD_OP_MAX_WEIGHT_ATTRS]; int n_extra; /* attributes that the weights
                                                                      decide */
};

/* Identify the weights of an op, the first to use them, and store them: their bytes, or hashes only
 * where a reference is enough.
 *   bytes : of each weight of the op, as the tap described it; NULL: it cannot be read
 * Returns 0; TD_ECORRUPT: no tap sends such weights; others: the op is lost. The lock is held. */
int client_store_weights(struct td_tap_client *c, const struct client_op *op,
                         const uint8_t *const *bytes, struct client_weight_set **out);

void client_weight_set_free(struct client_weight_set *set); /* NULL is allowed */

#endif
