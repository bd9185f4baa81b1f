/* beside.c - have a function run in a thread of its own, and wait for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/beside.h"

#include <string.h>
#include <time.h>

#define TELL_NS 100000000 /* from one tell to the next */

static void *thread_main(void *arg)
{
    struct td_beside *t = arg;

    t->run(t->arg);
    pthread_mutex_lock(&t->lock);
    t->is_done = true;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

bool td_beside_try(struct td_beside *t, void (*run)(void *arg), void *arg)
{
    *t = (struct td_beside){.run = run, .arg = arg};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->ended, NULL);
    t->has_thread = !pthread_create(&t->thread, NULL, thread_main, t);
    return t->has_thread;
}

void td_beside_start(struct td_beside *t, void (*run)(void *arg), void *arg)
{
    if (!td_beside_try(t, run, arg))
        run(arg);
}

bool td_beside_wait_a_while(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TELL_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(cond, lock, &until) != 0;
}

/* Wait a while. True: it is done. */
static bool wait_a_while(struct td_beside *t)
{
    bool done;

    pthread_mutex_lock(&t->lock);
    if (!t->is_done)
        td_beside_wait_a_while(&t->ended, &t->lock);
    done = t->is_done;
    pthread_mutex_unlock(&t->lock);
    return done;
}

void td_beside_wait(struct td_beside *t, void (*tell)(void *ctx), void *ctx)
{
    if (!t->run)
        return;
    while (t->has_thread && tell && !wait_a_while(t))
        tell(ctx);
    if (t->has_thread)
        pthread_join(t->thread, NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->ended);
    memset(t, 0, sizeof *t);
}
