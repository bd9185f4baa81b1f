/* invocation.c - how the user calls our programs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/invocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const PROGRAMS[] = {"record", "replay", "differ", "gate", "fixture"};

static char folder[TD_INVOCATION_FOLDER_MAX];

void td_invocation_called(const char *argv0)
{
    const char *slash = argv0 ? strrchr(argv0, '/') : NULL;
    const size_t len = slash ? (size_t)(slash - argv0) + 1 : 0;

    if (len < sizeof folder)
        snprintf(folder, sizeof folder, "%.*s", (int)len, argv0 ? argv0 : "");
}

const char *td_invocation_folder(void)
{
    return folder;
}

const char *td_invocation_prefix(void)
{
    const char *driver = getenv(TD_DRIVER_VARIABLE);

    return driver && !strcmp(driver, TD_DRIVER_NAME) ? TD_DRIVER_NAME " " : "";
}

/* The length of "{gate}" at s, if it names a program of ours; else 0. */
static size_t mark_length(const char *s)
{
    size_t i, n;

    for (i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++) {
        n = strlen(PROGRAMS[i]);
        if (!strncmp(s + 1, PROGRAMS[i], n) && s[n + 1] == '}')
            return n + 2;
    }
    return 0;
}

const char *td_invocation_expand(const char *text, char *out, size_t n)
{
    const char *prefix = td_invocation_prefix(), *s = text;
    size_t at = 0, mark;

    if (!strchr(text, '{'))
        return text;
    while (*s) {
        mark = *s == '{' ? mark_length(s) : 0;
        if (at + strlen(prefix) + mark + 2 > n)
            return text;
        if (!mark) {
            out[at++] = *s++;
            continue;
        }
        memcpy(out + at, prefix, strlen(prefix));
        at += strlen(prefix);
        memcpy(out + at, s + 1, mark - 2);
        at += mark - 2;
        s += mark;
    }
    out[at] = '\0';
    return out;
}
