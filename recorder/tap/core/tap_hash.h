/* tap_hash.h - one mixing step for the tap's hash tables and pseudo-random places.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_HASH_H
#define TD_RECORDER_TAP_CORE_TAP_HASH_H

#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014): every bit of x changes about half of the result's bits.
 * Pure. */
static inline uint64_t tap_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
