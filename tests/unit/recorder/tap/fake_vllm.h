/* fake_vllm.h - tensors of tests/helpers/lib_fake_vllm.c.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_RECORDER_TAP_FAKE_VLLM_H
#define TD_TESTS_UNIT_RECORDER_TAP_FAKE_VLLM_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_U8 = 0, FAKE_I8 = 1, FAKE_I32 = 3, FAKE_I64 = 4, FAKE_F16 = 5, FAKE_F32 = 6, FAKE_F64 = 7, FAKE_BF16 = 15 }; /* c10::ScalarType */

struct fake_impl { int64_t ndim, sizes[5], strides[5]; int32_t dtype, device, no_storage; void *data; };
struct fake_tensor { const struct fake_impl *impl; };            /* at::Tensor: a pointer that counts */
struct fake_optional { struct fake_tensor tensor; bool has; };   /* std::optional<at::Tensor> */

#define FAKE_INT4 _Z18int4_scaled_mm_cpuRN2at6TensorES1_S1_S1_St8optionalIS0_E
#define FAKE_WNA16 _Z14cpu_gemm_wna16RKN2at6TensorES2_RS0_S2_RKSt8optionalIS0_ES7_lRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
#define FAKE_ONEDNN _Z9onednn_mmRN2at6TensorERKS0_RKSt8optionalIS0_ES3_
#define FAKE_CREATE _Z24create_onednn_mm_handlerRKN2at6TensorEl
#define FAKE_LINEAR _ZN2at4_ops6linear4callERKNS_6TensorES4_RKSt8optionalIS2_E
#define FAKE_DECLARE \
    void *FAKE_LINEAR(void *ret, const void *x, const void *w, const void *bias); \
    void *FAKE_INT4(void *ret, const void *x, const void *w, const void *zeros, const void *scales, const void *bias); \
    void FAKE_WNA16(const void *x, const void *w, const void *out, const void *scales, const void *zeros, const void *bias, int64_t pack, const void *isa); \
    void FAKE_ONEDNN(const void *out, const void *x, const void *bias, const void *handler); \
    int64_t FAKE_CREATE(const void *b, int64_t cache);

#endif
