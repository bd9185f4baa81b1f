/* generate.h - the two endpoints that generate.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_GENERATE_H
#define TD_DEMO_SERVER_GENERATE_H

#include "demo/server/server.h"

/* Answer POST /v1/completions, or /v1/chat/completions (chat). */
void td_server_generate(struct td_server *s, struct td_call *call, bool chat);

#endif
