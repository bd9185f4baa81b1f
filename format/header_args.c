/* header_args.c - check the headers that are given on a command line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/header_args.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/header_file.h"
#include "common/hidden.h"
#include "format/redact_values.h"
#include "format/redact_words.h"
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

/* What is hidden, for the life of the program: what it prints last is filtered, too. */
static struct {
    const char *word[4 * TD_ARG_LIST_MAX + 1]; /* "NAME: VALUE" */
    int n;
    struct td_redact_values values;
    const struct td_redact_values *more;       /* or NULL */
} secrets;

static void hide_secrets(const void *values, char *text, size_t n)
{
    if (secrets.more) /* first: they may hold one of the others */
        td_redact_values_apply(secrets.more, text, n, false);
    td_redact_values_apply(values, text, n, false);
    td_redact_query(text, n);
}

static int hide_word(const char *word, struct td_error *err)
{
    int i;

    for (i = 0; i < secrets.n; i++)
        if (!strcmp(secrets.word[i], word))
            return TD_OK;
    if (secrets.n + 1 == (int)(sizeof secrets.word / sizeof *secrets.word))
        return td_fail(err, TD_ELIMIT, "more than %d headers and variables with secrets", secrets.n);
    secrets.word[secrets.n++] = word;
    return TD_OK;
}

static int hide_again(struct td_error *err)
{
    td_redact_values_release(&secrets.values);
    td_hidden_set(hide_secrets, &secrets.values);
    return td_redact_values_init(&secrets.values, secrets.word, err);
}

int td_header_args_hide(const struct td_arg_list *headers, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < headers->n && !rc; i++)
        rc = headers->item[i][0] == '@' ? TD_OK : hide_word(headers->item[i], err);
    return rc ? rc : hide_again(err);
}

/* "NAME: VALUE" or "NAME=VALUE" with a secret's name, and a value that may be a key: of one word, behind
 * "Bearer" or the like. Returns the length of the name; 0: it is none. */
static size_t named_secret(const char *word)
{
    const size_t name = strcspn(word, ":=");
    const char *value = word + name + (word[name] != '\0');
    size_t scheme;

    value += strspn(value, " \t");
    scheme = strcspn(value, " ");
    if (word[name] == ':' && value[scheme] && scheme <= 6)
        value += scheme + 1;
    if (!td_secret_name(word, name) || (word[name] != '=' && strpbrk(value, " \t")))
        return 0;
    return *value ? name : 0;
}

int td_header_args_hide_named(const char *const *words, int n, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < n && !rc; i++) {
        const size_t name = named_secret(words[i]);
        char *word;

        if (!name)
            continue;
        word = strdup(words[i]);
        if (!word)
            return td_fail(err, TD_ENOMEM, "out of memory for a variable");
        word[name] = ':';
        rc = hide_word(word, err);
        if (rc || secrets.word[secrets.n - 1] != word)
            free(word);
    }
    return rc ? rc : hide_again(err);
}

void td_header_args_hide_values(const struct td_redact_values *values)
{
    secrets.more = values;
    td_hidden_set(hide_secrets, &secrets.values);
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
