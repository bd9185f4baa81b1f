/* error.c - failures: first sentence wins.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/invocation.h"

int td_fail(struct td_error *err, int code, const char *fmt, ...)
{
    char expanded[1024];
    va_list ap;

    if (!err || err->code)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, td_invocation_expand(fmt, expanded, sizeof expanded), ap);
    va_end(ap);
    return code;
}

int td_fail_at(struct td_error *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    va_list ap;
    int n;

    if (!err)
        return TD_EIO;
    memcpy(old, err->msg, sizeof old);
    va_start(ap, fmt);
    n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n + 3 < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %.*s", (int)(sizeof err->msg - (size_t)n - 3), old);
    return err->code;
}

void td_error_clear(struct td_error *err)
{
    err->code = 0;
    err->msg[0] = '\0';
}

const char *td_code_name(int code)
{
    switch (code) {
    case TD_OK: return "ok";
    case TD_EIO: return "i/o error";
    case TD_ENOMEM: return "out of memory";
    case TD_EINVAL: return "invalid argument";
    case TD_ELIMIT: return "limit exceeded";
    case TD_ETRUNCATED: return "truncated";
    case TD_ECORRUPT: return "corrupt";
    case TD_EVERSION: return "unknown version";
    case TD_EEXIST: return "exists already";
    case TD_ENOTFOUND: return "not found";
    case TD_EUNSUPPORTED: return "not supported";
    case TD_ETIMEOUT: return "timed out";
    case TD_EPROTO: return "protocol error";
    case TD_EINTR: return "interrupted";
    case TD_ECRASH: return "crashed";
    case TD_EBUSY: return "busy";
    default: return "error";
    }
}

int td_exit_code(int code)
{
    if (code == TD_OK)
        return TD_EXIT_OK;
    return code == TD_EINVAL || code == TD_EEXIST ? TD_EXIT_USAGE : TD_EXIT_BROKEN;
}
