/* header_args.c - check the headers that are given on a command line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/header_args.h"

#include <string.h>
#include <strings.h>

#include "common/header_file.h"
#include "common/hidden.h"
#include "format/redact_values.h"
#include "format/secret_names.h"

/* The value is not shown: it may be a key. */
static int check_header(const char *header, struct td_error *err)
{
    const char *colon = strchr(header, ':');

    if (!colon || colon == header || strpbrk(header, "\r\n"))
        return td_fail(err, TD_EINVAL, "--header: give NAME:VALUE (what was given is not shown: it may be a key)");
    return TD_OK;
}

static int check_name(const char *option, const char *name, struct td_error *err)
{
    if (!*name || strpbrk(name, ": \t\r\n"))
        return td_fail(err, TD_EINVAL, "%s \"%.*s\": give the name of a header alone", option, (int)strcspn(name, ": \t\r\n"), name);
    return TD_OK;
}

static int check_shown(const struct td_arg_list *headers, const char *name, struct td_error *err)
{
    size_t n = strlen(name);
    int i, rc = check_name("--show-header", name, err);

    if (rc)
        return rc;
    if (td_secret_header(name, n))
        return td_fail(err, TD_EINVAL, "--show-header %s: by its name this header holds a secret, and is always overwritten", name);
    for (i = 0; i < headers->n; i++)
        if (!strncasecmp(headers->item[i], name, n) && strchr(": \t", headers->item[i][n]))
            return TD_OK;
    return td_fail(err, TD_EINVAL, "--show-header %s: no such header is given by --header", name);
}

static void hide_values(const void *values, char *text, size_t n)
{
    td_redact_values_apply(values, text, n, false);
}

int td_header_args_hide(const struct td_arg_list *headers, struct td_error *err)
{
    static struct td_redact_values values; /* of the program: what it prints last is filtered, too */
    const char *list[TD_ARG_LIST_MAX + 1] = {NULL};
    int rc;

    if (!headers->n)
        return TD_OK;
    memcpy(list, headers->item, (size_t)headers->n * sizeof *list);
    td_redact_values_release(&values);
    rc = td_redact_values_init(&values, list, err);
    if (!rc)
        td_hidden_set(hide_values, &values);
    return rc;
}

int td_header_args_check(struct td_arg_list *headers, const struct td_arg_list *show, const struct td_arg_list *redact,
                         struct td_error *err)
{
    int i, rc = td_header_file_expand(headers, err);

    for (i = 0; !rc && i < headers->n; i++)
        rc = check_header(headers->item[i], err);
    for (i = 0; !rc && show && i < show->n; i++)
        rc = check_shown(headers, show->item[i], err);
    for (i = 0; !rc && redact && i < redact->n; i++)
        rc = check_name("--redact-header", redact->item[i], err);
    return rc ? rc : td_header_args_hide(headers, err);
}
