/* providers.c - the table of the providers, from providers.def.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/providers/providers.h"

#include <stdio.h>
#include <string.h>

#define TD_PROVIDER(name, source) extern const struct td_provider td_provider_##name;
#include "kernels/providers/providers.def"

static const struct {
    const char *name;
    enum td_provider_source source;
    const struct td_provider *provider; /* NULL: a program of its own */
} providers[] = {
#define TD_PROVIDER(name, source) {#name, source, &td_provider_##name},
#define TD_PROVIDER_PROGRAM(name, source) {#name, source, NULL},
#include "kernels/providers/providers.def"
};
#define N_PROVIDERS (sizeof providers / sizeof *providers)

const struct td_provider *td_provider_find(const char *name)
{
    for (size_t i = 0; i < N_PROVIDERS; i++)
        if (!strcmp(providers[i].name, name))
            return providers[i].provider;
    return NULL;
}

const char *td_provider_name_find(const char *name, size_t n, enum td_provider_source source)
{
    for (size_t i = 0; i < N_PROVIDERS; i++)
        if (providers[i].source == source && strlen(providers[i].name) == n
            && !strncmp(providers[i].name, name, n))
            return providers[i].name;
    return NULL;
}

const char *td_provider_names(enum td_provider_source source, char *buf, size_t size)
{
    size_t at = 0;

    if (size)
        buf[0] = '\0';
    for (size_t i = 0; i < N_PROVIDERS && at < size; i++)
        if (providers[i].source == source)
            at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", providers[i].name);
    return buf;
}
