/* fill_ids.h - fill in token ids that a stream of llama.cpp lost.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A glyph of several tokens is one event with only its last id; the places of the others are known (token id -1). The same request
 * unstreamed, outside of what is timed, has all ids. They are taken over when they agree with the streamed answer: as many tokens
 * as the server counted, the same ids wherever the stream showed one, and the same text. Else the answer stays incomplete and says so.
 *
 * It stands between the deriver and who keeps exchanges: lossy answers are held back until td_fill_ids_end. The wire log has
 * everything that this needs, so `fixture repair` comes to the same exchanges. */
#ifndef TD_WIRE_FILL_IDS_H
#define TD_WIRE_FILL_IDS_H

#include "wire/derive.h"
#include "wire/send.h"

#define TD_FILL_IDS_ROLE "ids"          /* of a request that is sent for this */
#define TD_FILL_IDS_MAX_HELD 4096      /* more are passed on as they are */

struct td_fill_ids;
struct td_fill_ids *td_fill_ids_new(td_derive_emit_fn *emit, void *arg);   /* NULL: out of memory */
void td_fill_ids_free(struct td_fill_ids *w);                              /* what is still held is dropped */

/* A td_derive_emit_fn; `whole` is a struct td_fill_ids. */
int td_fill_ids_add(void *whole, struct td_exchange *x, struct td_error *err);
/* Append one request for each prompt with an answer that is held. Chats are put through the server's /apply-template first.
 * TD_OK also when a prompt cannot be asked; TD_ENOMEM. */
int td_fill_ids_plan(struct td_fill_ids *w, const struct td_api_server *s, const char *const *headers, struct td_plan *plan,
                  struct td_error *err);
/* Fill what can be filled, and pass on what was held. */
int td_fill_ids_end(struct td_fill_ids *w, struct td_error *err);

#endif
