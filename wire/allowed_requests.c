/* allowed_requests.c - which requests may be sent to a server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/allowed_requests.h"

#include <string.h>

#include "common/clean.h"

#define OF(kind) (1u << (kind))
#define ANY (~0u)

static const struct { const char *path; unsigned kinds; } GENERATES[] = {
    {"/v1/completions", ANY},
    {"/v1/chat/completions", ANY},
    {TD_API_GENERATE, OF(TD_API_VLLM)},
    {"/completion", OF(TD_API_LLAMACPP)},
    {"/generate", OF(TD_API_SGLANG)},
};

/* Is every byte one that may stand in a request line? */
static bool is_printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f)
            return false;
    return true;
}

static bool is_path(const char *path, size_t len, const char *known)
{
    return strlen(known) == len && !memcmp(path, known, len);
}

static bool is_listed(enum td_api_kind kind, const char *path, size_t len, const char *const *more)
{
    size_t i;

    for (i = 0; i < sizeof GENERATES / sizeof *GENERATES; i++)
        if ((kind == TD_API_AUTO || GENERATES[i].kinds & OF(kind)) &&
            is_path(path, len, GENERATES[i].path))
            return true;
    for (; more && *more; more++)
        if (is_path(path, len, *more))
            return true;
    return false;
}

/* By a rule of `record --redact` that reaches it: each character is a star. */
static bool is_overwritten(const char *text)
{
    return *text && text[strspn(text, "*")] == '\0';
}

int td_allowed_request(enum td_api_kind kind, const char *method, const char *path,
                       const char *const *more, struct td_error *err)
{
    const size_t len = strcspn(path, "?");
    const bool sound = !strcmp(method, "POST") && *path == '/' && path[1] != '/' &&
                       is_printable(path) && !strpbrk(path, "#\\");
    struct td_buf asked = TD_BUF_INIT(4096);
    int rc;

    if (sound && is_listed(kind, path, len, more))
        return TD_OK;
    if (is_overwritten(method) || is_overwritten(path))
        return td_fail(err, TD_EINVAL,
                       "the recording cannot be replayed: a rule of its --redact has overwritten what its "
                       "requests ask for. Record again, with rules that name members of requests and "
                       "answers (messages[*].content)");
    td_clean_line(method, 24, &asked);
    td_buf_addc(&asked, ' ');
    td_clean_line(path, 120, &asked);
    if (sound)
        rc = td_fail(err, TD_EINVAL,
                     "the recording asks for \"%s\", which is not how %s generates text; nothing was "
                     "sent. If you trust the recording, give --allow-path %.*s",
                     td_buf_str(&asked), kind == TD_API_AUTO ? "a server" : td_api_name(kind),
                     (int)(len < 120 ? len : 120), path);
    else
        rc = td_fail(err, TD_EINVAL,
                     "the recording asks for \"%s\", which is no request to generate text; nothing "
                     "was sent. Do not trust a recording that asks for this",
                     td_buf_str(&asked));
    td_buf_release(&asked);
    return rc;
}

int td_allowed_plan(enum td_api_kind kind, const struct td_plan *plan, const char *const *more,
                    struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < plan->n && !rc; i++)
        rc = td_allowed_request(kind, plan->items[i].method, plan->items[i].path, more, err);
    return rc;
}

int td_allowed_path_check(const char *path, struct td_error *err)
{
    if (path[0] == '/' && path[1] != '/' && is_printable(path) && !strpbrk(path, "?#\\"))
        return TD_OK;
    return td_fail(err, TD_EINVAL,
                   "--allow-path: \"%s\" is no path; give one as /v1/completions, without a query",
                   path);
}
