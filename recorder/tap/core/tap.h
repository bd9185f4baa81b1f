/* tap.h - what a front of libtapedeck-tap.so uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library runs inside somebody else's server. It never prints, exits, aborts or waits for the
 * recorder, allocates nothing on the server's threads once it is armed, and fails open: whatever is
 * wrong, the real function is called.
 *
 * A front uses, in this order:
 *     struct tap_symbol                       tap_real.h    to find the function it stands before
 *     tap_start_if_cold()                     tap_server.h  at each call seen while awake
 *     tap_armed(), tap_call_is_wanted()       tap_plan.h, tap_call.h
 *     tap_step_begin()                        tap_steps.h   where a step begins, if the server says
 *     tap_call_begin(), tap_call_end()        tap_call.h    around the real function
 *     TAP_FRONT(name) = {...}                 tap_front.h   and a line in recorder/tap/fronts.h
 * A front that copies from a device decides by tap_sampler.h and sends by tap_sender.h from a
 * thread of its own. */
#ifndef TD_RECORDER_TAP_CORE_TAP_H
#define TD_RECORDER_TAP_CORE_TAP_H

#include "recorder/tap/core/tap_budget.h"
#include "recorder/tap/core/tap_call.h"
#include "recorder/tap/core/tap_counters.h"
#include "recorder/tap/core/tap_front.h"
#include "recorder/tap/core/tap_plan.h"
#include "recorder/tap/core/tap_real.h"
#include "recorder/tap/core/tap_sampler.h"
#include "recorder/tap/core/tap_sender.h"
#include "recorder/tap/core/tap_server.h"
#include "recorder/tap/core/tap_steps.h"
#include "recorder/tap/core/tap_time.h"

/* Of the functions that a front stands before: everything else in the library is hidden. */
#define TAP_EXPORT __attribute__((visibility("default")))
#define TAP_LIKELY(x) __builtin_expect(!!(x), 1)

#endif
