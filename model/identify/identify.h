/* identify.h - whose weights are these? Find their layer in a checkpoint.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_IDENTIFY_IDENTIFY_H
#define TD_MODEL_IDENTIFY_IDENTIFY_H

#include "model/identify/weight_set.h"

/* Fill the output of s by the identifier for its kind and layout. A set that no identifier knows is
 * stored as it was sent, under the framework's name. Call it once per set, at the first op that
 * uses it: the result serves all later ops. Not thread-safe per s->layers. Returns 0; TD_ECORRUPT:
 * no tap sends such weights; TD_ELIMIT: they have more tensors or attributes than an op has room
 * for; of this and other errors: the op is lost. The caller releases s whatever was returned. */
int td_identify_weights(struct td_weight_set *s, struct td_error *err);

#endif
