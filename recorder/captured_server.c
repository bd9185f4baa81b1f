/* captured_server.c - which of a capture's endpoints is the server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/captured_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "wire/api.h"

int td_captured_server_read(const char *server, struct td_endpoint *out, struct td_error *err)
{
    char url[512], host[256] = "";
    uint8_t ipv4[4];
    int port = 0;
    int rc = td_api_url(server, url, sizeof url, err);

    if (rc)
        return rc;
    if (strncmp(url, "https:", 6) == 0)
        return td_fail(err, TD_EINVAL,
                       "--server %s: what goes by under TLS cannot be read. Capture where it is plain: between the proxy "
                       "that ends TLS and the server",
                       server);
    if (sscanf(url, "http://[%255[^]]]:%5d", host, &port) != 2 && sscanf(url, "http://%255[^:/]:%5d", host, &port) != 2)
        port = 80;
    if (port < 1 || port > 65535)
        return td_fail(err, TD_EINVAL, "--server %s: no port", server);
    out->port = (uint16_t)port;
    if (inet_pton(AF_INET, host, ipv4) == 1)
        td_endpoint_set_ipv4(out, ipv4);
    else if (inet_pton(AF_INET6, host, out->address) != 1)
        memset(out->address, 0, sizeof out->address);
    return TD_OK;
}
