/* routes.h - answer each path.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_ROUTES_H
#define TD_DEMO_SERVER_ROUTES_H

#include "demo/server/server.h"

/* The td_httpd_handler of the server; user: struct td_server. */
void td_server_route(void *user, struct td_call *call);

#endif
