/* hidden.c - what must not be shown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/hidden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static td_hidden_filter *hide;
static const void *hide_arg;

void td_hidden_set(td_hidden_filter *filter, const void *arg)
{
    hide = filter;
    hide_arg = arg;
}

bool td_hidden_is_set(void)
{
    return hide != NULL;
}

char *td_hidden_copy(const char *text, size_t n)
{
    char *copy = malloc(n + 1);

    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    if (hide)
        hide(hide_arg, copy, n);
    return copy;
}

void td_hidden_cut(char *out, size_t size, const char *text, size_t n)
{
    char *copy = td_hidden_copy(text, n < size + TD_HIDDEN_MOST ? n : size + TD_HIDDEN_MOST);

    snprintf(out, size, "%s", copy ? copy : "(out of memory)");
    free(copy);
}
