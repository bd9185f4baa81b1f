/* weight_fingerprint.h - a sample of a weight, by which it is found in a checkpoint.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server may keep a weight in a form that nobody else can read. The tap takes a sample of it
 * before that happens; the recorder looks for tensors of the checkpoint with the same words at the
 * same places. */
#ifndef TD_COMMON_DESC_WEIGHT_FINGERPRINT_H
#define TD_COMMON_DESC_WEIGHT_FINGERPRINT_H

#include <stdint.h>

#include "common/desc/op_desc.h"

#define TD_FINGERPRINT_WORDS 256

/* Of a dense, row-major [rows, cols] matrix, as its checkpoint has it. */
struct td_weight_fingerprint {
    int64_t rows, cols;
    char dtype[TD_OP_MAX_DTYPE];   /* "BF16", "I32" */
    uint32_t word[TD_FINGERPRINT_WORDS]; /* little-endian; word[i] is td_fingerprint_at(…, i) */
};

/* Which of a matrix's words of 4 bytes, counted from its first one, is word[i]. Multiples of the
 * golden ratio: whatever the width, they are spread over all rows and all columns.
 *   words : of the matrix, not 0, less than 2^40 */
static inline uint64_t td_fingerprint_at(uint64_t words, unsigned i)
{
    uint64_t step = words / 1000000 * 618034 + words % 1000000 * 618034 / 1000000;

    return (i + 1) * (step | 1) % words;
}

#endif
