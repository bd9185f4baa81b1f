/* handover.c - what one thread hands to the next, in order: a queue with a bound.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/handover.h"

#include "common/beside.h"

void td_handover_init(struct td_handover *h)
{
    *h = (struct td_handover){0};
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->came, NULL);
}

void td_handover_release(struct td_handover *h)
{
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->came);
}

void td_handover_put(struct td_handover *h, void *item)
{
    pthread_mutex_lock(&h->lock);
    h->item[(h->first + h->n++) % TD_HANDOVER_MAX] = item;
    pthread_cond_signal(&h->came);
    pthread_mutex_unlock(&h->lock);
}

void td_handover_close(struct td_handover *h)
{
    pthread_mutex_lock(&h->lock);
    h->closed = true;
    pthread_cond_signal(&h->came);
    pthread_mutex_unlock(&h->lock);
}

void *td_handover_take(struct td_handover *h, void (*tell)(void *ctx), void *ctx)
{
    void *item = NULL;

    pthread_mutex_lock(&h->lock);
    while (!h->n && !h->closed) {
        if (!tell) {
            pthread_cond_wait(&h->came, &h->lock);
        } else if (td_beside_wait_a_while(&h->came, &h->lock)) {
            pthread_mutex_unlock(&h->lock);
            tell(ctx);
            pthread_mutex_lock(&h->lock);
        }
    }
    if (h->n) {
        item = h->item[h->first];
        h->first = (h->first + 1) % TD_HANDOVER_MAX;
        h->n--;
    }
    pthread_mutex_unlock(&h->lock);
    return item;
}
