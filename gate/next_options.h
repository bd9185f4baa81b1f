/* next_options.h - the options of this run that a command under NEXT repeats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_NEXT_OPTIONS_H
#define TD_GATE_NEXT_OPTIONS_H

#include "common/buf.h"
#include "gate/gate_options.h"

/* Append the options that name the builds and how they are judged: " --build x.so --policy p.json".
 * Quoted for a shell. */
void td_gate_add_builds(const struct td_gate_options *o, struct td_buf *out);
/* Append those that name the servers. Headers are left out: they hold keys. */
void td_gate_add_servers(const struct td_gate_options *o, struct td_buf *out);

#endif
