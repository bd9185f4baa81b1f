/* fake_cublaslt.h - descriptors, layouts and preferences of the fake cublasLt: one value per
 * attribute.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and default values are those that libcublasLt 13.1 returns. */
#ifndef TD_TESTS_HELPERS_FAKE_CUBLASLT_H
#define TD_TESTS_HELPERS_FAKE_CUBLASLT_H

#include <stdint.h>
#include <string.h>

#include "kernels/abi/cublaslt_abi.h"

#define FAKE_LT_ATTRIBUTES 40
#define FAKE_LT_SHORT 1               /* this `bytes` answers a question of any size */

/* bytes 0: the attribute is unknown, and a question for it fails. */
struct fake_lt { struct { uint64_t value; uint32_t bytes; } at[FAKE_LT_ATTRIBUTES]; };

static inline void fake_lt_set(struct fake_lt *o, int attribute, uint32_t bytes, uint64_t value)
{
    o->at[attribute].value = value;
    o->at[attribute].bytes = bytes;
}

/* The descriptor that torch makes for a linear layer; bias 0: the layer has no bias. */
static inline struct fake_lt fake_lt_desc(uint64_t bias)
{
    struct fake_lt o;
    int i;

    memset(&o, 0, sizeof o);
    for (i = 0; i < FAKE_LT_ATTRIBUTES; i++)
        fake_lt_set(&o, i, (i >= 8 && i <= 14) || (i >= 17 && i <= 21) ? 8 : 4, 0);
    fake_lt_set(&o, TD_CUBLASLT_DESC_COMPUTE_TYPE, 4, TD_CUBLASLT_COMPUTE_32F);
    fake_lt_set(&o, TD_CUBLASLT_DESC_TRANSA, 4, TD_CUBLASLT_OP_T);
    fake_lt_set(&o, TD_CUBLASLT_DESC_FILL_MODE, 4, TD_CUBLASLT_FULL);
    fake_lt_set(&o, TD_CUBLASLT_DESC_EPILOGUE, 4, bias ? TD_CUBLASLT_BIAS : TD_CUBLASLT_DEFAULT);
    fake_lt_set(&o, TD_CUBLASLT_DESC_BIAS_POINTER, 8, bias);
    fake_lt_set(&o, TD_CUBLASLT_DESC_BIAS_DATA_TYPE, 4, UINT32_MAX);
    return o;
}

static inline struct fake_lt fake_lt_layout(int type, uint64_t rows, uint64_t cols, uint64_t ld)
{
    struct fake_lt o;

    memset(&o, 0, sizeof o);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_TYPE, 4, (uint64_t)type);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_ORDER, 4, TD_CUBLASLT_COL);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_ROWS, 8, rows);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_COLS, 8, cols);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_LD, 8, ld);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_BATCH_COUNT, 4, 1);
    fake_lt_set(&o, TD_CUBLASLT_LAYOUT_BATCH_MODE, 4, TD_CUBLASLT_STRIDED);
    return o;
}

#endif
