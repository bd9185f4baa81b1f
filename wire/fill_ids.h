/* fill_ids.h - fill in token ids that a stream of llama.cpp lost.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A glyph of several tokens is one event with only its last id; the other tokens are there with id
 * -1. The same request, sent unstreamed outside of what is timed, has all ids. They are filled in
 * if they agree with the streamed answer: as many tokens as the server counted, the same ids where
 * the stream showed one, the same text. Else the answer stays incomplete and is marked so.
 *
 * It stands between the deriver and the receiver of exchanges: lossy answers are held back until
 * td_fill_ids_end(). The wire log has all it needs, so `fixture repair` makes the same
 * exchanges. */
#ifndef TD_WIRE_FILL_IDS_H
#define TD_WIRE_FILL_IDS_H

#include "wire/derive.h"
#include "wire/send.h"

#define TD_FILL_IDS_ROLE "ids"          /* of a request that only asks for ids */
#define TD_FILL_IDS_MAX_HELD 4096      /* further answers are passed on incomplete */

struct td_fill_ids;
struct td_fill_ids *td_fill_ids_new(td_derive_emit_fn *emit, void *arg);   /* NULL: out of memory */
void td_fill_ids_free(struct td_fill_ids *w); /* held answers are dropped */

/* Pass an exchange on to emit, or hold it back. A td_derive_emit_fn; arg is a struct
 * td_fill_ids. */
int td_fill_ids_add(void *arg, struct td_exchange *x, struct td_error *err);
/* Plan one request for each prompt with a held answer. A chat goes through the server's
 * /apply-template first. TD_OK also when a prompt cannot be asked; TD_ENOMEM. */
int td_fill_ids_plan(struct td_fill_ids *w, const struct td_api_server *s, const char *const *headers, struct td_plan *plan,
                  struct td_error *err);
/* Fill in the ids that agree, and pass on all held answers. */
int td_fill_ids_end(struct td_fill_ids *w, struct td_error *err);

#endif
