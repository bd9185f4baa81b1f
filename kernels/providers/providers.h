/* providers.h - the providers that this version has, by name (providers.def).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDERS_H
#define TD_KERNELS_PROVIDERS_PROVIDERS_H

#include "kernels/providers/provider.h"

enum td_provider_source {
    TD_PROVIDER_OURS,     /* kernels of this tree */
    TD_PROVIDER_OF_BUILD  /* runs what the user names as a build */
};

/* The provider to run ops with in this process. NULL: unknown, or a program of its own (torch). */
const struct td_provider *td_provider_find(const char *name);

/* The name, in static storage, of the provider of that source whose name is the first n bytes of
 * `name`; programs of their own count. NULL: there is none. */
const char *td_provider_name_find(const char *name, size_t n, enum td_provider_source source);

/* All names of that source, "ref, cpu, simt", cut to buf[size]. Returns buf. */
const char *td_provider_names(enum td_provider_source source, char *buf, size_t size);

#endif
