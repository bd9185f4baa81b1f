/* dtype.h - element types of tensors: names, sizes, and conversion of 16-bit floats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_DTYPE_H
#define TD_MODEL_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* Names are those of safetensors ("F16", "BF16", "I32", "U8" ...); block formats carry ggml's names and sizes
 * (ggml-common.h, one block_* each). */
enum td_dtype {
    TD_DT_NONE = 0,
    TD_DT_F64, TD_DT_F32, TD_DT_F16, TD_DT_BF16,
    TD_DT_I64, TD_DT_I32, TD_DT_I16, TD_DT_I8, TD_DT_U64, TD_DT_U32, TD_DT_U16, TD_DT_U8, TD_DT_BOOL,
    TD_DT_Q4_0, TD_DT_Q4_1, TD_DT_Q5_0, TD_DT_Q5_1, TD_DT_Q8_0, TD_DT_Q2_K, TD_DT_Q3_K, TD_DT_Q4_K, TD_DT_Q5_K, TD_DT_Q6_K,
    TD_DT_F8_E4M3, TD_DT_F8_E5M2,
    TD_DT_COUNT
};

const char *td_dtype_name(enum td_dtype dt);       /* "F16"; "none" for TD_DT_NONE or out of range */
enum td_dtype td_dtype_parse(const char *name);    /* TD_DT_NONE: unknown (IQ4_XS, MXFP4, a later dtype) */
/* Shapes and strides of a block format count blocks along the last dimension, so this is the size of what they count:
 * bytes of an element, or of a block; 0 for TD_DT_NONE. */
size_t td_dtype_size(enum td_dtype dt);
int td_dtype_block(enum td_dtype dt);              /* elements in a block: 32 or 256; 1 for the rest, 0 for TD_DT_NONE */

/* IEEE binary16 and bfloat16. To a narrower type: round to nearest even, overflow gives Inf, NaN stays NaN. */
float td_f16_to_f32(uint16_t h);
uint16_t td_f32_to_f16(float f);
float td_bf16_to_f32(uint16_t h);
uint16_t td_f32_to_bf16(float f);
/* 8-bit floats as safetensors has them (torch's float8_e4m3fn, float8_e5m2): E4M3 has no Inf, and 0x7f and
 * 0xff are its NaN; E5M2 is the upper half of a binary16. */
float td_e4m3_to_f32(uint8_t b);
float td_e5m2_to_f32(uint8_t b);
/* Arrays of n; uses F16C where the machine has it, with the same results. */
void td_f16_to_f32_n(const uint16_t *src, float *dst, size_t n);
void td_f32_to_f16_n(const float *src, uint16_t *dst, size_t n);

/* Element i of a dense array of dtype dt as double (integers exactly up to 2^53). Block formats: ggml_blocks.h; here 0. */
double td_dtype_get(enum td_dtype dt, const void *base, size_t i);
/* Element i of a dense array of `from` as the bits that it has as `to` (to nearest even); both F16, BF16 or F32. */
uint32_t td_dtype_bits(enum td_dtype from, const void *base, size_t i, enum td_dtype to);

#endif
