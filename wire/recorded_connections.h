/* recorded_connections.h - which request goes over which connection, where a recording tells.
 * SPDX-License-Identifier: Apache-2.0
 *
 * libcurl takes any idle connection to a server. Here each recorded connection has a pool of its own, so that its
 * requests meet only each other: the first makes a connection, the last closes it. One thread only. */
#ifndef TD_WIRE_RECORDED_CONNECTIONS_H
#define TD_WIRE_RECORDED_CONNECTIONS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_recorded_connection;
struct td_recorded_connections { struct td_recorded_connection *c; size_t n, cap; }; /* zeroed: none */

/* Have a request go over the connection `number`. TD_OK, TD_ENOMEM. */
int td_recorded_connections_use(struct td_recorded_connections *all, int64_t number, CURL *easy);
/* The request has ended, and is taken from the multi handle. Behind the last one of a connection its pool is given back, once
 * no other request uses it. */
void td_recorded_connections_done(struct td_recorded_connections *all, int64_t number, bool last, CURL *easy);
/* No request uses one any more. */
void td_recorded_connections_release(struct td_recorded_connections *all);

#endif
