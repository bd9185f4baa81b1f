/* tap_environ.c - variables of the environment as the process started with them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_environ.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_MAX (1u << 20)        /* bytes read of it */

void tap_environ_get(const char *name, char *out, size_t max)
{
    char *all = malloc(ENVIRON_MAX + 1), *p;
    size_t len = strlen(name), n = 0;
    int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
    ssize_t k;

    out[0] = '\0';
    while (all && fd >= 0 && n < ENVIRON_MAX && (k = read(fd, all + n, ENVIRON_MAX - n)) > 0)
        n += (size_t)k;
    if (fd >= 0)
        close(fd);
    if (all) {
        all[n] = '\0';
        for (p = all; p < all + n; p += strlen(p) + 1)
            if (!strncmp(p, name, len) && p[len] == '=' && strlen(p + len + 1) < max)
                strcpy(out, p + len + 1);
    }
    free(all);
}
