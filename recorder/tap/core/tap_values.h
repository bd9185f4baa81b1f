/* tap_values.h - count the non-finite and the non-zero values of an output.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of the tap count: the tap decides by it when to dump the flight recorder, the recorder
 * names the first bad op. Pure: nothing here allocates, waits or changes errno. Any thread. */
#ifndef TD_RECORDER_TAP_CORE_TAP_VALUES_H
#define TD_RECORDER_TAP_CORE_TAP_VALUES_H

#include <stdint.h>
#include <string.h>

struct tap_value_counts {
    uint64_t n;                    /* values looked at */
    uint64_t not_finite;           /* of them NaN or infinite */
    uint64_t not_zero;             /* of them neither +0 nor -0; a NaN counts too */
};

/* 16-bit floats; exponent: the bits that are all set in NaN and Inf. */
static inline void tap_values_count_16bit(struct tap_value_counts *counts, const uint8_t *p,
                                          uint64_t bytes, uint16_t exponent)
{
    uint64_t i;

    for (i = 0; i + 2 <= bytes; i += 2) {
        uint16_t v;

        memcpy(&v, p + i, 2);
        counts->not_finite += (v & exponent) == exponent;
        counts->not_zero += (v & 0x7fff) != 0;
    }
    counts->n += bytes / 2;
}

static inline void tap_values_count_32bit(struct tap_value_counts *counts, const uint8_t *p,
                                          uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i + 4 <= bytes; i += 4) {
        uint32_t v;

        memcpy(&v, p + i, 4);
        counts->not_finite += (v & 0x7f800000u) == 0x7f800000u;
        counts->not_zero += (v & 0x7fffffffu) != 0;
    }
    counts->n += bytes / 4;
}

/* Add the values at p to *counts, which the caller zeroes before the first. Types other than F16,
 * BF16 and F32 add nothing. p needs no alignment. */
static inline void tap_values_count(struct tap_value_counts *counts, const char *dtype,
                                    const void *p, uint64_t bytes)
{
    if (!strcmp(dtype, "F16"))
        tap_values_count_16bit(counts, p, bytes, 0x7c00);
    else if (!strcmp(dtype, "BF16"))
        tap_values_count_16bit(counts, p, bytes, 0x7f80);
    else if (!strcmp(dtype, "F32"))
        tap_values_count_32bit(counts, p, bytes);
}

#endif
