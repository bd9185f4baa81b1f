/* api_facts.h - write facts about the server, and how it was asked, into the manifest.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_API_FACTS_H
#define TD_WIRE_API_FACTS_H

#include "wire/api_body.h"

/* Write the sections "server" and "sampling" of manifest.json.
 *   x : an answer, which has the server's fingerprint, or NULL */
void td_api_write_facts(struct td_writer *w, const struct td_api_server *s, const struct td_sampling *smp,
                        const struct td_exchange *x);

#endif
