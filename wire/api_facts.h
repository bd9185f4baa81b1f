/* api_facts.h - what the manifest says of the server and of how it was asked.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_API_FACTS_H
#define TD_WIRE_API_FACTS_H

#include "wire/api_body.h"

/* Facts for manifest.json: sections "server" and "sampling". x: an answer (its fingerprint), or NULL. */
void td_api_write_facts(struct td_writer *w, const struct td_api_server *s, const struct td_sampling *smp,
                        const struct td_exchange *x);

#endif
