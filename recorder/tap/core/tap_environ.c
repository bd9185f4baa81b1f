/* tap_environ.c - variables of the environment as they were when the tap was loaded.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_environ.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define KEPT_MAX 8192u                /* bytes: a path or two, and small numbers */

/* NAME=VALUE, each with its end, one behind the other. Written once, by the constructor. */
static struct { char text[KEPT_MAX]; size_t n; } kept;

static bool is_ours(const char *entry)
{
    return !strncmp(entry, "TD_TAP_", 7) || !strncmp(entry, "XDG_RUNTIME_DIR=", 16);
}

__attribute__((constructor)) static void keep(void)
{
    char **entry;
    size_t n;

    for (entry = environ; entry && *entry; entry++) {
        n = strlen(*entry) + 1;
        if (!is_ours(*entry) || n > KEPT_MAX - kept.n)
            continue;
        memcpy(kept.text + kept.n, *entry, n);
        kept.n += n;
    }
}

void tap_environ_get(const char *name, char *out, size_t max)
{
    const size_t len = strlen(name);
    const char *p;

    out[0] = '\0';
    for (p = kept.text; p < kept.text + kept.n; p += strlen(p) + 1)
        if (!strncmp(p, name, len) && p[len] == '=' && strlen(p + len + 1) < max)
            strcpy(out, p + len + 1);
}
