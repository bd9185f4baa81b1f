/* handover.h - what one thread hands to the next, in order: a queue with a bound.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_HANDOVER_H
#define TD_REPLAYER_HANDOVER_H

#include <pthread.h>
#include <stdbool.h>

#define TD_HANDOVER_MAX 8

/* What the giver wrote before td_handover_put() is seen by who takes. At most TD_HANDOVER_MAX things are in it: that is up to the user. */
struct td_handover {
    pthread_mutex_t lock; pthread_cond_t came;
    void *item[TD_HANDOVER_MAX]; int first, n;
    bool closed;
};

void td_handover_init(struct td_handover *h);
void td_handover_release(struct td_handover *h);
void td_handover_put(struct td_handover *h, void *item);
/* Nothing more comes. What is in it may still be taken. */
void td_handover_close(struct td_handover *h);
/* Take the first thing, or wait for it. NULL: nothing is in it, and it is closed.
 *   tell : called some times a second meanwhile; NULL: not */
void *td_handover_take(struct td_handover *h, void (*tell)(void *ctx), void *ctx);

#endif
