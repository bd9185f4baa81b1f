/* operator_counts.c - count the operators of torch that a server called, by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/operator_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/log.h"
#include "recorder/tap_client/client_text.h"

static bool is_operator(const void *list, uint32_t entry, const void *key)
{
    const struct client_operator *one = (const struct client_operator *)list + entry;
    const struct tap_operator *rec = key;

    return !strcmp(one->name, rec->name) && !strcmp(one->key, rec->key);
}

static uint64_t hash_operator(const struct tap_operator *rec)
{
    return td_hash64(rec->name, strlen(rec->name)) * 31 + td_hash64(rec->key, strlen(rec->key));
}

/* The entry of an operator, made if need be; NULL: there is no room for another. */
static struct client_operator *find_operator(struct client_operators *o,
                                             const struct tap_operator *rec)
{
    const uint64_t hash = hash_operator(rec);
    const uint32_t found = client_index_find(&o->index, hash, is_operator, o->all, rec);
    struct client_operator *one;

    if (found != CLIENT_INDEX_NONE)
        return &o->all[found];
    if (!o->all)
        o->all = calloc(CLIENT_OPERATORS_MAX, sizeof *o->all);
    if (!o->all || o->n == CLIENT_OPERATORS_MAX ||
        !client_index_add(&o->index, hash, o->n))
        return NULL;
    one = &o->all[o->n++];
    memcpy(one->name, rec->name, sizeof one->name);
    memcpy(one->key, rec->key, sizeof one->key);
    one->known = rec->known != 0;
    return one;
}

/* Counts come from another process: they stop at the top. */
static void add(int64_t *count, uint64_t n)
{
    uint64_t sum = (uint64_t)*count + n;

    *count = sum < n || sum > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)sum;
}

bool client_operators_read(struct client_operators *o, const struct tap_operator *rec)
{
    struct client_operator *one;

    if (!client_is_text(rec->name, sizeof rec->name, false) ||
        !client_is_text(rec->key, sizeof rec->key, true))
        return false;
    one = find_operator(o, rec);
    if (!one && !o->nameless)
        td_log(TD_LOG_WARN, "tap",
               "the server calls more than %u operators of torch: calls of others are counted "
               "without their names",
               o->n);
    add(one ? &one->calls : &o->nameless, rec->calls);
    if (one)
        add(&one->bytes, rec->bytes);
    return true;
}

static int by_calls(const void *a, const void *b)
{
    const struct client_operator *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    return x->calls != y->calls ? (x->calls < y->calls) - (x->calls > y->calls)
           : names              ? names
                                : strcmp(x->key, y->key);
}

void client_operators_state(const struct client_operators *o, struct td_tap_client_state *out)
{
    int64_t most = 0;
    uint32_t i;

    out->operators = 0;
    for (i = 0; i < o->n; i++) {
        const struct client_operator *one = &o->all[i];

        if (one->known)
            continue;
        out->operators++;
        add(&out->operator_calls, (uint64_t)one->calls);
        if (one->calls <= most)
            continue;
        most = one->calls;
        snprintf(out->most_called, sizeof out->most_called, "%s", one->name);
    }
    add(&out->operator_calls, (uint64_t)o->nameless);
}

static cJSON *describe_operator(const struct client_operator *one)
{
    cJSON *o = cJSON_CreateObject();

    cJSON_AddStringToObject(o, "name", one->name);
    cJSON_AddStringToObject(o, "dispatch", one->key);
    cJSON_AddNumberToObject(o, "calls", (double)one->calls);
    cJSON_AddNumberToObject(o, "bytes", (double)one->bytes);
    cJSON_AddBoolToObject(o, "recorded", one->known);
    return o;
}

void client_operators_facts(struct client_operators *o, struct td_writer *w)
{
    cJSON *all;
    uint32_t i;

    if (!o->n)
        return;
    client_index_release(&o->index);
    qsort(o->all, o->n, sizeof *o->all, by_calls);
    all = cJSON_CreateArray();
    for (i = 0; i < o->n; i++)
        cJSON_AddItemToArray(all, describe_operator(&o->all[i]));
    td_writer_fact(w, "tap", "operators", all);
    cJSON_Delete(all);
    if (o->nameless)
        td_writer_fact_num(w, "tap", "operators_left_out", (double)o->nameless);
}

void client_operators_release(struct client_operators *o)
{
    free(o->all);
    client_index_release(&o->index);
    memset(o, 0, sizeof *o);
}
