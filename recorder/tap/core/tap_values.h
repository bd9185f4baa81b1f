/* tap_values.h - is there anything in these values? Both ends of the tap look at outputs: the tap to know when, the recorder to say which.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_VALUES_H
#define TD_RECORDER_TAP_CORE_TAP_VALUES_H

#include <stdint.h>
#include <string.h>

struct tap_look { uint64_t n, not_finite, not_zero; }; /* values; of them NaN or infinite; of them other than +0 and -0 */

static inline void tap_look_halves(struct tap_look *l, const uint8_t *p, uint64_t bytes, uint16_t exponent)
{
    uint64_t i;

    for (i = 0; i + 2 <= bytes; i += 2) {
        uint16_t v;

        memcpy(&v, p + i, 2);
        l->not_finite += (v & exponent) == exponent;
        l->not_zero += (v & 0x7fff) != 0;
    }
    l->n += bytes / 2;
}

static inline void tap_look_floats(struct tap_look *l, const uint8_t *p, uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i + 4 <= bytes; i += 4) {
        uint32_t v;

        memcpy(&v, p + i, 4);
        l->not_finite += (v & 0x7f800000u) == 0x7f800000u;
        l->not_zero += (v & 0x7fffffffu) != 0;
    }
    l->n += bytes / 4;
}

/* Add values to *l, zeroed before the first. Types other than F16, BF16 and F32 are not looked at. */
static inline void tap_look_at(struct tap_look *l, const char *dtype, const void *p, uint64_t bytes)
{
    if (!strcmp(dtype, "F16"))
        tap_look_halves(l, p, bytes, 0x7c00);
    else if (!strcmp(dtype, "BF16"))
        tap_look_halves(l, p, bytes, 0x7f80);
    else if (!strcmp(dtype, "F32"))
        tap_look_floats(l, p, bytes);
}

#endif
