/* cpu_probe.c - how fast this machine computes just now.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/cpu_probe.h"

#include <stdint.h>

#include "common/clock.h"

#define STEPS 20000000 /* each waits for the one before: two or three cycles */

double td_cpu_probe_ms(void)
{
    const int64_t began_ns = td_clock_mono_ns();
    volatile uint64_t kept;
    uint64_t x = 88172645463325252ULL;
    int i;

    for (i = 0; i < STEPS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
    }
    kept = x; /* else the compiler would leave it out */
    (void)kept;
    return (double)(td_clock_mono_ns() - began_ns) / 1e6;
}
