/* dtype.h - element types of tensors: names, sizes, and conversion of 16-bit floats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_DTYPE_H
#define TD_MODEL_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* Names are those of safetensors ("F16", "BF16", "I32", "U8" ...); block formats carry ggml's names ("Q4_0"). */
enum td_dtype {
    TD_DT_NONE = 0,
    TD_DT_F64, TD_DT_F32, TD_DT_F16, TD_DT_BF16,
    TD_DT_I64, TD_DT_I32, TD_DT_I16, TD_DT_I8, TD_DT_U64, TD_DT_U32, TD_DT_U16, TD_DT_U8, TD_DT_BOOL,
    TD_DT_COUNT
};

const char *td_dtype_name(enum td_dtype dt);       /* "F16"; "none" for TD_DT_NONE or out of range */
enum td_dtype td_dtype_parse(const char *name);    /* TD_DT_NONE: unknown (a block format, a later dtype) */
size_t td_dtype_size(enum td_dtype dt);            /* bytes of an element; 0 for TD_DT_NONE */

/* IEEE binary16 and bfloat16. To a narrower type: round to nearest even, overflow gives Inf, NaN stays NaN. */
float td_f16_to_f32(uint16_t h);
uint16_t td_f32_to_f16(float f);
float td_bf16_to_f32(uint16_t h);
uint16_t td_f32_to_bf16(float f);
/* Arrays of n; uses F16C where the machine has it, with the same results. */
void td_f16_to_f32_n(const uint16_t *src, float *dst, size_t n);
void td_f32_to_f16_n(const float *src, uint16_t *dst, size_t n);

/* Element i of a dense array of dtype dt as double (integers exactly up to 2^53). */
double td_dtype_get(enum td_dtype dt, const void *base, size_t i);

#endif
