/* product_share.c - a large product is computed by all threads that have nothing else to do.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/product_share.h"

#include <pthread.h>
#include <stddef.h>

#include "common/error.h"

#define CHUNK 512 /* columns: A is packed once for each */

struct shared {
    const struct td_product *p;
    int64_t next;           /* column that nobody has taken */
    int at_work;            /* threads */
    int rc;
    struct shared *after;
};

/* The lock guards the list and all members. `changed`: a product came, or ended, or something else is due. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct shared *first;

static bool has_more(const struct shared *s)
{
    return s->next < s->p->n && !s->rc;
}

/* Compute one chunk. The lock is held before and after, not meanwhile. */
static void take_chunk(struct shared *s)
{
    const int64_t from = s->next, to = s->p->n - from < CHUNK ? s->p->n : from + CHUNK;
    int rc;

    s->next = to;
    s->at_work++;
    pthread_mutex_unlock(&lock);
    rc = td_product_columns(s->p, from, to);
    pthread_mutex_lock(&lock);
    s->rc = s->rc ? s->rc : rc;
    if (!--s->at_work && !has_more(s))
        pthread_cond_broadcast(&changed);
}

static void forget(struct shared *s)
{
    struct shared **at = &first;

    while (*at != s)
        at = &(*at)->after;
    *at = s->after;
}

int td_product_run(const struct td_product *p)
{
    struct shared s = {.p = p};

    if (p->n <= CHUNK)
        return td_product_columns(p, 0, p->n);
    pthread_mutex_lock(&lock);
    s.after = first;
    first = &s;
    pthread_cond_broadcast(&changed);
    while (has_more(&s))
        take_chunk(&s);
    while (s.at_work)
        pthread_cond_wait(&changed, &lock);
    forget(&s);
    pthread_mutex_unlock(&lock);
    return s.rc;
}

void td_product_help_until(bool (*is_due)(const void *ctx), const void *ctx)
{
    pthread_mutex_lock(&lock);
    while (!is_due(ctx)) {
        struct shared *s = first;

        while (s && !has_more(s))
            s = s->after;
        if (s)
            take_chunk(s);
        else
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

void td_product_wake(void)
{
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
