/* tap_rows.c - rows that the user wrote: read them from the recorder's file.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_rows.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/tap/core/tap_front.h"

static const char *read_all(int fd, char *text, size_t n)
{
    size_t at = 0;
    ssize_t k;

    while (at < n && (k = pread(fd, text + at, n - at, (off_t)at)) > 0)
        at += (size_t)k;
    return at == n ? NULL : "the rows cannot be read";
}

const char *tap_rows_take(int fd, uint64_t n)
{
    struct stat st;
    const char *why;
    char *text;

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return "no rows came along";
    if (!n || n > TAP_MAX_ROWS_TEXT)
        return "the rows are too long";
    text = malloc(n);
    if (!text)
        return "out of memory";
    why = read_all(fd, text, n);
    if (!why)
        why = tap_fronts_set_rows(text, n);
    free(text);
    return why;
}

void tap_rows_drop(void)
{
    tap_fronts_set_rows(NULL, 0);
}
