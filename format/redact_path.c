/* redact_path.c - paths into JSON: "messages[*].content".
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "format/redact_json.h"

void td_redact_path_release(struct td_redact_path *p)
{
    int i;

    for (i = 0; i < p->n; i++)
        free(p->part[i].name);
    memset(p, 0, sizeof *p);
}

static int add_part(struct td_redact_path *p, const char *name, size_t n, const char *all, struct td_error *err)
{
    struct td_redact_part *q = &p->part[p->n];

    if (p->n >= TD_REDACT_MAX_PARTS || n >= TD_REDACT_KEY_MAX)
        return td_fail(err, TD_EINVAL, "\"%s\": more than %d parts, or a part longer than %d bytes",
                       all, TD_REDACT_MAX_PARTS, TD_REDACT_KEY_MAX - 1);
    memset(q, 0, sizeof *q);
    if (n == 2 && !memcmp(name, "**", 2)) {
        if (p->n)
            return td_fail(err, TD_EINVAL, "\"%s\": ** can only stand at the beginning", all);
        q->deep = true;
    } else if (n == 1 && *name == '*') {
        q->any = true;
    } else if (n && *name != '[') {
        q->name = strndup(name, n);
        if (!q->name)
            return td_fail(err, TD_ENOMEM, "out of memory");
    } else if (!n) {
        return td_fail(err, TD_EINVAL, "\"%s\": an empty part; write it like \"messages[*].content\"", all);
    }
    p->n++;
    return TD_OK;
}

int td_redact_path_parse(struct td_redact_path *p, const char *text, struct td_error *err)
{
    const char *s = text;
    int rc = TD_OK;

    memset(p, 0, sizeof *p);
    while (!rc) {
        size_t n = strcspn(s, ".[");

        rc = add_part(p, s, n, text, err);
        s += n;
        while (!rc && *s == '[') {
            const char *end = strchr(s, ']');

            rc = end ? add_part(p, "[", 1, text, err) : td_fail(err, TD_EINVAL, "\"%s\": [ without ]", text);
            s = end ? end + 1 : s;
        }
        if (rc || !*s)
            break;
        if (*s++ != '.')
            rc = td_fail(err, TD_EINVAL, "\"%s\": a dot is due after ]", text);
    }
    if (!rc && p->n == 1 && p->part[0].deep)
        rc = td_fail(err, TD_EINVAL, "\"%s\": ** needs a name behind it", text);
    if (rc)
        td_redact_path_release(p);
    return rc;
}
