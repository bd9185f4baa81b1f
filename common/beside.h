/* beside.h - have a function run in a thread of its own, and wait for it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_BESIDE_H
#define TD_COMMON_BESIDE_H

#include <pthread.h>
#include <stdbool.h>

struct td_beside {
    void (*run)(void *arg); void *arg;
    pthread_t thread; bool has_thread;
    pthread_mutex_t lock; pthread_cond_t ended;
    bool is_done;
};

/* Start run(arg). Where no thread can be had it runs here and now. t : stays in place until td_beside_wait() */
void td_beside_start(struct td_beside *t, void (*run)(void *arg), void *arg);
/* The same; false: no thread can be had, and nothing runs. td_beside_wait() is due in any case. */
bool td_beside_try(struct td_beside *t, void (*run)(void *arg), void *arg);
/* Wait for the condition, until it is time to tell something. True: it is. */
bool td_beside_wait_a_while(pthread_cond_t *cond, pthread_mutex_t *lock);
/* Wait for its end; what it wrote is seen from then on.
 *   tell : called some times a second meanwhile; NULL: not
 * A zeroed t, which runs nothing, is allowed. */
void td_beside_wait(struct td_beside *t, void (*tell)(void *ctx), void *ctx);

#endif
