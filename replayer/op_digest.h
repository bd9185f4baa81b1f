/* op_digest.h - the recorded output of an op of which the fixture keeps a digest alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_OP_DIGEST_H
#define TD_REPLAYER_OP_DIGEST_H

#include "replayer/op_item.h"

/* Fill it->digest, and it->recorded where a run of either build gave the very bytes that were recorded: they are judged
 * then as if they had been stored. What else was recorded nobody knows, and it->recorded stays NULL.
 *   it : ran; it->recorded is borrowed from one of its runs then, and ends with that */
void td_op_digest_find(struct td_op_item *it);

#endif
