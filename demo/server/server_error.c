/* server_error.c - vLLM's error answers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/server_error.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/json.h"

static const char *error_type(int status)
{
    return status == 404   ? "NotFoundError"
           : status == 501 ? "NotImplementedError"
           : status >= 500 ? "InternalServerError"
                           : "BadRequestError";
}

bool td_server_error_set(struct td_server_error *e, int status, const char *param, const char *fmt, ...)
{
    va_list ap;

    if (e->status)
        return false;
    e->status = status;
    e->type = error_type(status);
    e->param = param;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return false;
}

void td_server_error_render(const struct td_server_error *e, struct td_buf *out)
{
    struct td_jw w;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_obj(&w, "error");
    td_jw_cstr(&w, "message", e->message);
    td_jw_cstr(&w, "type", e->type);
    td_jw_cstr(&w, "param", e->param);
    td_jw_i64(&w, "code", e->status);
    td_jw_end(&w);
    td_jw_end(&w);
}

void td_server_error_reply(const struct td_server_error *e, struct td_call *c)
{
    struct td_buf out = TD_BUF_INIT(8192);

    td_server_error_render(e, &out);
    td_call_reply_json(c, e->status, &out);
    td_buf_release(&out);
}
