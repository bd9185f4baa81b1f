/* fronts.c - the list of fronts that the core goes through.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/fronts.h"

#define ADDRESS(front) &tap_front_##front,
static const struct tap_front *const fronts[]
    __attribute__((section("tap_fronts"), used)) = {TAP_ALL_FRONTS(ADDRESS)};
