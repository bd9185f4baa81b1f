/* gpu_own_kernels.c - kernels that the user described.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_own_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/adapters/own_adapter.h"
#include "recorder/tap/gpu/own_texts.h"

/* The kernels of a text. Never freed. */
struct own_kernels {
    struct td_own_adapter kernel[TD_OWN_ROWS];
    int n;
    _Atomic(const struct td_own_adapter *) unfit; /* the last one that was launched with other
                                                     parameters, */
    _Atomic int n_params;                         /* and how many */
};

static struct own_kernels *sets[TAP_OWN_TEXTS]; /* the tap's thread */
static _Atomic(struct own_kernels *) current;

static struct own_kernels *make_set(const struct td_own_rows *file)
{
    struct own_kernels *s = calloc(1, sizeof *s);
    int i;

    for (i = 0; s && i < file->n; i++)
        if (file->row[i].is_kernel)
            td_own_adapter_init(&s->kernel[s->n++], &file->row[i]);
    return s;
}

const char *tap_gpu_own_kernels_set(const char *text, size_t n)
{
    const struct td_own_rows *file;
    int at = 0;
    const char *why = text ? tap_own_text(text, n, &at, &file) : NULL;

    if (text && !why && !sets[at] && !(sets[at] = make_set(file)))
        why = "out of memory";
    if (text && !why)
        atomic_store(&sets[at]->unfit, NULL);
    atomic_store(&current, text && !why ? sets[at] : NULL);
    return why;
}

static const struct td_own_adapter *find(const struct own_kernels *s, const char *symbol)
{
    int i;

    for (i = 0; s && i < s->n; i++)
        if (td_own_adapter_is(&s->kernel[i], symbol))
            return &s->kernel[i];
    return NULL;
}

bool tap_gpu_own_kernel_is(const char *symbol)
{
    return find(atomic_load(&current), symbol) != NULL;
}

const struct td_gpu_adapter *tap_gpu_own_kernel_find(const char *symbol, const struct td_gpu_param *params,
                                                     int n_params)
{
    struct own_kernels *s = atomic_load(&current);
    const struct td_own_adapter *a = find(s, symbol);

    if (a && td_own_adapter_fits(a, params, n_params))
        return &a->adapter;
    if (a) {
        atomic_store(&s->n_params, n_params);
        atomic_store(&s->unfit, a);
    }
    return NULL;
}

const char *tap_gpu_own_kernels_trouble(void)
{
    static char text[320];
    struct own_kernels *s = atomic_load(&current);
    const struct td_own_adapter *a = s ? atomic_load(&s->unfit) : NULL;

    if (!a)
        return NULL;
    if (atomic_load(&s->n_params) < 1) {
        snprintf(text, sizeof text, "--ops: how the parameters of the kernel %s lie is not known here, so none was recorded",
                 a->row->name);
        return text;
    }
    snprintf(text, sizeof text,
             "--ops: the kernel %s was launched with %d parameters, and not those of its row (%d): "
             "count and bytes must be equal",
             a->row->name, atomic_load(&s->n_params), a->row->n_params);
    return text;
}
