/* own_texts.c - files of rows that the user wrote.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/own_texts.h"

#include <stdlib.h>
#include <string.h>

static struct own_text {
    size_t n;
    struct td_own_rows rows;
    char text[];
} * texts[TAP_OWN_TEXTS];
static int n_texts;

static const char *read_text(const char *text, size_t n)
{
    struct own_text *t = malloc(sizeof *t + n);
    struct td_own_error err;

    if (!t)
        return "out of memory";
    if (!td_own_rows_read(text, n, &t->rows, &err)) {
        free(t);
        return "the rows of --ops cannot be read";
    }
    t->n = n;
    memcpy(t->text, text, n);
    texts[n_texts++] = t;
    return NULL;
}

const char *tap_own_text(const char *text, size_t n, int *number, const struct td_own_rows **rows)
{
    const char *why = NULL;
    int i = 0;

    while (i < n_texts && (texts[i]->n != n || memcmp(texts[i]->text, text, n)))
        i++;
    if (i == TAP_OWN_TEXTS)
        return "this server has seen too many different files of --ops: start it anew";
    if (i == n_texts)
        why = read_text(text, n);
    if (!why)
        *number = i, *rows = &texts[i]->rows;
    return why;
}
