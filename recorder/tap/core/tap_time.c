/* tap_time.c - the clock of the tap.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_time.h"

#include <time.h>

int64_t tap_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void tap_sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}
