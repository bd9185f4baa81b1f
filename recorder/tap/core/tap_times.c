/* tap_times.c - the message TIMES: a window in which the kernels of a GPU are timed, which ends by
 * itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_times.h"

#include <limits.h>

#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_time.h"

static int64_t until_ns;              /* the open window's end; 0: none is open */

static const char *begin(uint32_t ms)
{
    const char *why;

    if (tap_armed())
        return "the tap is armed";
    if (!ms || ms > TAP_TIMES_MAX_MS)
        return "unknown length of a window";
    why = tap_fronts_times_begin();
    until_ns = why ? 0 : tap_now() + ms * 1000000LL;
    return why;
}

const char *tap_times_serve(const struct tap_msg *m, struct tap_msg *reply)
{
    switch (m->mode) {
    case TAP_TIMES_BEGIN:
        return begin(m->number);
    case TAP_TIMES_END:
        until_ns = 0;
        return tap_fronts_times_end(reply);
    case TAP_TIMES_GET:
        return tap_fronts_times_get(m->number, reply);
    default:
        return "unknown step";
    }
}

void tap_times_tick(void)
{
    if (!until_ns || tap_now() < until_ns)
        return;
    until_ns = 0;
    tap_fronts_times_end(NULL);
}

int tap_times_wait_ms(int ms)
{
    int64_t left = (until_ns - tap_now()) / 1000000 + 1;

    if (!until_ns || (ms >= 0 && left > ms))
        return ms;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void tap_times_drop(void)
{
    until_ns = 0;
    tap_fronts_times_drop();
}

void tap_times_forget(void)
{
    until_ns = 0;
}
