/* server_error.h - the error answer of a failed request, in vLLM's form.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEMO_SERVER_SERVER_ERROR_H
#define TD_DEMO_SERVER_SERVER_ERROR_H

#include <stdbool.h>

#include "common/buf.h"
#include "demo/server/httpd.h"

/* Status and the four members of vLLM's {"error": ...}. */
struct td_server_error {
    int status;          /* 0: none */
    const char *type;    /* "BadRequestError" ... */
    const char *param;   /* or NULL */
    char message[400];
};
/* Fill *e unless it is filled already; returns false, so that a check can end with it. */
bool td_server_error_set(struct td_server_error *e, int status, const char *param, const char *fmt,
                         ...) __attribute__((format(printf, 4, 5)));
void td_server_error_render(const struct td_server_error *e, struct td_buf *out);
/* Write it and send it. */
void td_server_error_reply(const struct td_server_error *e, struct td_call *call);

#endif
