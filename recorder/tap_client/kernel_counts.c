/* kernel_counts.c - the kernels that a server launched on its GPU, by name: what the fixture covers of them, and what it does not.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "recorder/tap_client/kernel_names.h"
#include "recorder/tap_client/client_state.h"

#define KERNELS_MAX 16384u            /* names; a server has some hundreds */
#define KERNELS_TOLD 256u             /* in the manifest, the most launched */

/* One kernel can be part of a product that is recorded, and elsewhere of one that is not. */
static struct client_kernel *find(struct td_tap_client *l, const char *symbol, bool known)
{
    struct client_kernel *more;
    uint32_t i;

    for (i = 0; i < l->n_kernels; i++)
        if (l->kernels[i].known == known && !strcmp(l->kernels[i].symbol, symbol))
            return &l->kernels[i];
    if (l->n_kernels == KERNELS_MAX)
        return NULL;
    if (!(l->n_kernels & (l->n_kernels - 1))) { /* a power of two, or none: full */
        more = realloc(l->kernels, (l->n_kernels ? 2 * l->n_kernels : 1) * sizeof *more);
        if (!more)
            return NULL;
        l->kernels = more;
    }
    l->kernels[l->n_kernels] = (struct client_kernel){.known = known, .symbol = strdup(symbol)};
    return l->kernels[l->n_kernels].symbol ? &l->kernels[l->n_kernels++] : NULL;
}

bool client_take_kernel(struct td_tap_client *l, const struct tap_kernel *rec)
{
    struct client_kernel *k;

    if (!client_is_text(rec->symbol, sizeof rec->symbol, false) || rec->known > 1 || rec->n > INT64_MAX / 2)
        return false;
    k = find(l, rec->symbol, rec->known);
    if (!k)
        return true;                  /* more names than a program has: only counted, as "launches.seen" */
    if (k->n < INT64_MAX / 2)
        k->n += (int64_t)rec->n;
    return true;
}

void client_kernels_state(const struct td_tap_client *l, struct td_tap_client_state *out)
{
    int64_t most = 0;
    uint32_t i;

    for (i = 0; i < l->n_kernels; i++) {
        const struct client_kernel *k = &l->kernels[i];

        if (k->known)
            out->gemms += k->n;
        else if (td_kernel_is_gemm(k->symbol))
            out->gemms_other += k->n;
        if (!k->known && td_kernel_is_gemm(k->symbol) && k->n > most) {
            most = k->n;
            td_kernel_short_name(k->symbol, out->other, sizeof out->other);
        }
    }
}

static int by_count(const void *a, const void *b)
{
    const struct client_kernel *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->symbol, y->symbol);
}

void client_kernels_facts(struct td_tap_client *l)
{
    struct td_tap_client_state state = {0};
    cJSON *all, *unread;
    uint32_t i;

    if (l->unseen)
        td_writer_fact_str(l->opt.writer, "tap", "unseen", l->unseen);
    if (!l->n_kernels)
        return;
    qsort(l->kernels, l->n_kernels, sizeof *l->kernels, by_count);
    all = cJSON_CreateArray();
    for (i = 0; i < l->n_kernels && i < KERNELS_TOLD; i++) {
        cJSON *o = cJSON_CreateObject();

        cJSON_AddStringToObject(o, "symbol", l->kernels[i].symbol);
        cJSON_AddNumberToObject(o, "launches", (double)l->kernels[i].n);
        cJSON_AddBoolToObject(o, "recorded", l->kernels[i].known);
        cJSON_AddItemToArray(all, o);
    }
    td_writer_fact(l->opt.writer, "tap", "kernels", all);
    cJSON_Delete(all);
    client_kernels_state(l, &state);
    unread = cJSON_CreateNumber((double)state.gemms_other);
    td_writer_fact(l->opt.writer, "tap", "unread_gemms", unread);
    cJSON_Delete(unread);
    if (*state.other)
        td_writer_fact_str(l->opt.writer, "tap", "unread_most", state.other);
}

void client_kernels_release(struct td_tap_client *l)
{
    uint32_t i;

    for (i = 0; i < l->n_kernels; i++)
        free(l->kernels[i].symbol);
    free(l->kernels);
    free(l->unseen);
    l->kernels = NULL;
    l->unseen = NULL;
    l->n_kernels = 0;
}
