/* gpu_threads.c - which threads of the server may be inside the tap.
 * SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "recorder/tap/gpu/gpu_threads.h"

#define WAIT_MS 200                   /* for threads that are still inside */

/* Else a callback that comes late does nothing: all may be about to change. */
static _Atomic bool watching;
static _Atomic uint32_t inside;       /* threads of the server */

__thread __attribute__((tls_model("initial-exec"))) struct tap_gpu_thread tap_gpu_thread;

bool tap_gpu_come_in(void)
{
    atomic_fetch_add(&inside, 1);
    if (atomic_load(&watching))
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

void tap_gpu_go_out(void)
{
    atomic_fetch_sub(&inside, 1);
}

void tap_gpu_watch_launches(bool on)
{
    atomic_store(&watching, on);
}

bool tap_gpu_is_watching(void)
{
    return atomic_load(&watching);
}

bool tap_gpu_is_anybody_inside(void)
{
    return atomic_load(&inside);
}

void tap_gpu_wait_until_outside(void)
{
    int64_t until = tap_now() + WAIT_MS * 1000000LL;
    struct timespec t = {0, 100000};

    while (atomic_load(&inside) && tap_now() < until)
        nanosleep(&t, NULL);
}

void tap_gpu_threads_forget(void)
{
    atomic_store(&watching, false);
    atomic_store(&inside, 0);
    tap_gpu_thread = (struct tap_gpu_thread){.own_calls = false};
}
