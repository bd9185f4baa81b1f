/* tap_plan.c - what the recorder asked for, and whether the tap is armed: the state alone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_plan.h"

struct tap_plan tap_plan;
_Atomic uint32_t tap_generation;
