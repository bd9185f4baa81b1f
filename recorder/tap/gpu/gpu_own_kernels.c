/* gpu_own_kernels.c - kernels that the user described.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_own_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/own_adapter.h"
#include "kernels/adapters/own_rows.h"

/* A text that was read, and its kernels. Never freed. */
struct own_kernels {
    struct own_kernels *next;
    char *text;
    size_t n_text;
    struct td_own_rows file;
    struct td_own_adapter kernel[TD_OWN_ROWS];
    int n;
    _Atomic(const struct td_own_adapter *) unfit; /* the last one that was launched with other
                                                     parameters, */
    _Atomic int n_params;                         /* and how many */
};

static struct own_kernels *all;       /* the tap's thread */
static int n_all;
static _Atomic(struct own_kernels *) current;

static struct own_kernels *find_text(const char *text, size_t n)
{
    struct own_kernels *s;

    for (s = all; s && (s->n_text != n || memcmp(s->text, text, n)); s = s->next)
        ;
    return s;
}

static void make_adapters(struct own_kernels *s)
{
    int i;

    for (i = 0; i < s->file.n; i++)
        if (s->file.row[i].is_kernel)
            td_own_adapter_init(&s->kernel[s->n++], &s->file.row[i]);
}

static const char *read_text(const char *text, size_t n, struct own_kernels **out)
{
    struct own_kernels *s = calloc(1, sizeof *s);
    struct td_own_error err;
    const char *why = "out of memory";

    if (s)
        s->text = malloc(n + 1);
    if (s && s->text)
        why = td_own_rows_read(text, n, &s->file, &err) ? NULL : "the rows of --ops cannot be read";
    if (why) {
        if (s)
            free(s->text);
        free(s);
        return why;
    }
    memcpy(s->text, text, n);
    s->n_text = n;
    make_adapters(s);
    s->next = all;
    all = s;
    n_all++;
    *out = s;
    return NULL;
}

const char *tap_gpu_own_kernels_set(const char *text, size_t n)
{
    struct own_kernels *s = text ? find_text(text, n) : NULL;
    const char *why = NULL;

    if (text && !s)
        why = n_all < TAP_GPU_OWN_TEXTS
                  ? read_text(text, n, &s)
                  : "this server has seen too many different files of --ops: start it anew";
    if (s)
        atomic_store(&s->unfit, NULL);
    atomic_store(&current, s);
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
    snprintf(text, sizeof text,
             "--ops: the kernel %s was launched with %d parameters, and not those of its row (%d): "
             "count and bytes must be equal",
             a->row->name, atomic_load(&s->n_params), a->row->n_params);
    return text;
}
