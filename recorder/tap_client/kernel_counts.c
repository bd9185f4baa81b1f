/* kernel_counts.c - count the kernels that a server launched on its GPU, by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/kernel_counts.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/log.h"
#include "recorder/tap_client/client_text.h"
#include "common/kernel_names.h"

#define KERNELS_LISTED 256u           /* in the manifest, the most launched */

struct kernel_key { const char *symbol; bool known; };

static bool is_kernel(const void *list, uint32_t entry, const void *key)
{
    const struct client_kernel *one = (const struct client_kernel *)list + entry;
    const struct kernel_key *wanted = key;

    return one->known == wanted->known && !strcmp(one->symbol, wanted->symbol);
}

/* The entry of a kernel, made if need be; NULL: there is no room for another. A kernel that is part
 * of a recorded product, and elsewhere of one that is not, has two entries. */
static struct client_kernel *find_kernel(struct client_kernels *k, const char *symbol, bool known)
{
    const struct kernel_key key = {symbol, known};
    const uint64_t hash = td_hash64(symbol, strlen(symbol)) ^ known;
    const uint32_t found = client_index_find(&k->index, hash, is_kernel, k->all, &key);
    struct client_kernel *more;
    char *name;

    if (found != CLIENT_INDEX_NONE)
        return &k->all[found];
    if (k->n == CLIENT_KERNELS_MAX)
        return NULL;
    if (!(k->n & (k->n - 1))) {        /* a power of two, or none: full */
        more = realloc(k->all, (k->n ? 2 * k->n : 1) * sizeof *more);
        if (!more)
            return NULL;
        k->all = more;
    }
    name = strdup(symbol);
    if (!name || !client_index_add(&k->index, hash, k->n)) {
        free(name);
        return NULL;
    }
    k->all[k->n] = (struct client_kernel){.known = known, .symbol = name};
    return &k->all[k->n++];
}

bool client_kernels_read(struct client_kernels *k, const struct tap_kernel *rec)
{
    struct client_kernel *one;
    int64_t *count;

    if (!client_is_text(rec->symbol, sizeof rec->symbol, false) || rec->known > 1 ||
        rec->n > INT64_MAX / 2)
        return false;
    one = find_kernel(k, rec->symbol, rec->known);
    if (!one && !k->nameless)
        td_log(TD_LOG_WARN, "tap",
               "the server launches more than %u kernels: launches of others are counted without "
               "their names, and are not among unread_gemms",
               k->n);
    count = one ? &one->n : &k->nameless;
    if (*count < INT64_MAX / 2)
        *count += (int64_t)rec->n;
    return true;
}

void client_kernels_state(const struct client_kernels *k, struct td_tap_client_state *out)
{
    int64_t most = 0;
    uint32_t i;

    for (i = 0; i < k->n; i++) {
        const struct client_kernel *one = &k->all[i];

        if (one->known)
            out->gemms += one->n;
        else if (td_kernel_is_gemm(one->symbol))
            out->gemms_other += one->n;
        if (!one->known && td_kernel_is_gemm(one->symbol) && one->n > most) {
            most = one->n;
            td_kernel_short_name(one->symbol, out->other, sizeof out->other);
        }
    }
}

static int by_count(const void *a, const void *b)
{
    const struct client_kernel *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->symbol, y->symbol);
}

static cJSON *describe_kernel(const struct client_kernel *k)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "symbol", k->symbol);
    cJSON_AddNumberToObject(o, "launches", (double)k->n);
    cJSON_AddBoolToObject(o, "recorded", k->known);
    return o;
}

void client_kernels_facts(struct client_kernels *k, struct td_writer *w)
{
    struct td_tap_client_state state = {0};
    int64_t left_out = k->nameless;
    cJSON *all;
    uint32_t i;

    if (!k->n)
        return;
    client_index_release(&k->index);
    qsort(k->all, k->n, sizeof *k->all, by_count);
    all = cJSON_CreateArray();
    for (i = 0; i < k->n && i < KERNELS_LISTED; i++)
        cJSON_AddItemToArray(all, describe_kernel(&k->all[i]));
    td_writer_fact(w, "tap", "kernels", all);
    cJSON_Delete(all);
    for (; i < k->n; i++)
        left_out += k->all[i].n;
    if (left_out)
        td_writer_fact_num(w, "tap", "kernels_left_out", (double)left_out);
    client_kernels_state(k, &state);
    td_writer_fact_num(w, "tap", "unread_gemms", (double)state.gemms_other);
    if (*state.other)
        td_writer_fact_str(w, "tap", "unread_most", state.other);
}

void client_kernels_release(struct client_kernels *k)
{
    uint32_t i;

    for (i = 0; i < k->n; i++)
        free(k->all[i].symbol);
    free(k->all);
    client_index_release(&k->index);
    memset(k, 0, sizeof *k);
}
