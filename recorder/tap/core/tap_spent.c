/* tap_spent.c - how long the tap has worked in the server's threads while the server started.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_spent.h"

#include <stdatomic.h>

#include "recorder/tap/core/tap_time.h"

static _Atomic uint64_t spent_ns;

int64_t tap_spent_begin(void)
{
    return tap_now();
}

void tap_spent_end(int64_t begun)
{
    atomic_fetch_add_explicit(&spent_ns, (uint64_t)(tap_now() - begun), memory_order_relaxed);
}

uint64_t tap_spent_us(void)
{
    return (atomic_load_explicit(&spent_ns, memory_order_relaxed) + 999) / 1000;
}
