/* recorded_connections.c - which request goes over which connection, where a recording tells.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/recorded_connections.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define MOST ((size_t)1 << 20)

struct td_recorded_connection { int64_t number; CURLSH *pool; int users; bool over; };

static struct td_recorded_connection *find(const struct td_recorded_connections *all, int64_t number)
{
    size_t i;

    for (i = all->n; i; i--) /* those of now are at the end */
        if (all->c[i - 1].number == number)
            return &all->c[i - 1];
    return NULL;
}

static struct td_recorded_connection *add(struct td_recorded_connections *all, int64_t number)
{
    struct td_recorded_connection k = {.number = number};

    if (td_array_grow(&all->c, all->n, &all->cap, sizeof *all->c, MOST) || !(k.pool = curl_share_init()))
        return NULL;
    if (curl_share_setopt(k.pool, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT)) {
        curl_share_cleanup(k.pool);
        return NULL;
    }
    all->c[all->n] = k;
    return &all->c[all->n++];
}

int td_recorded_connections_use(struct td_recorded_connections *all, int64_t number, CURL *easy)
{
    struct td_recorded_connection *k = find(all, number);

    if (!k && !(k = add(all, number)))
        return TD_ENOMEM;
    if (curl_easy_setopt(easy, CURLOPT_SHARE, k->pool))
        return TD_ENOMEM;
    k->users++;
    return TD_OK;
}

void td_recorded_connections_done(struct td_recorded_connections *all, int64_t number, bool last, CURL *easy)
{
    struct td_recorded_connection *k = find(all, number);

    curl_easy_setopt(easy, CURLOPT_SHARE, NULL);
    if (!k)
        return;
    k->users--;
    k->over |= last;
    if (!k->over || k->users)
        return;
    curl_share_cleanup(k->pool);
    *k = all->c[--all->n];
}

void td_recorded_connections_release(struct td_recorded_connections *all)
{
    size_t i;

    for (i = 0; i < all->n; i++)
        curl_share_cleanup(all->c[i].pool);
    free(all->c);
    *all = (struct td_recorded_connections){0};
}
