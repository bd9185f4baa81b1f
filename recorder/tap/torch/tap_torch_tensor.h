/* tap_torch_tensor.h - read PyTorch's tensors from outside: by torch's own C functions, found in the process at run time; no torch is linked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h (stable by design: ahead-of-time compiled models call it); the numbers of dtypes are those
 * of c10/core/ScalarType.h. An AtenTensorHandle is an at::Tensor*, which is what a C++ function takes as `at::Tensor&`. */
#ifndef TD_RECORDER_TAP_TORCH_TAP_TORCH_TENSOR_H
#define TD_RECORDER_TAP_TORCH_TAP_TORCH_TENSOR_H

#include "recorder/tap/core/tap.h"

#pragma GCC visibility push(hidden)

enum tap_torch_dtype { TAP_TORCH_U8 = 0, TAP_TORCH_I8 = 1, TAP_TORCH_I32 = 3, TAP_TORCH_I64 = 4, TAP_TORCH_F16 = 5, TAP_TORCH_F32 = 6, TAP_TORCH_BF16 = 15 };

/* What is known of a tensor; sizes and strides (in elements) are torch's own memory, valid as long as the tensor is. */
struct tap_torch_tensor {
    int64_t ndim;
    const int64_t *sizes, *strides;
    int32_t dtype;
    const void *data;              /* NULL: it has no elements */
};

/* libstdc++'s std::optional<at::Tensor>: the tensor, then whether it is there. */
struct tap_torch_optional { const void *tensor; bool has; };

/* Find torch's functions by way of the library that defines fn. False: one is missing (an older torch), and no tensor can be read; asked again
 * only after a success elsewhere. Cheap after the first time. */
bool tap_torch_ready(const void *fn);
/* A tensor in the memory of this process, of at most TAP_DIMS dimensions. False: it is none, or torch says it cannot tell. tap_torch_ready() first. */
bool tap_torch_read(const void *handle, struct tap_torch_tensor *t);
/* Does torch say that it lies on another device? tap_torch_ready() first. */
bool tap_torch_elsewhere(const void *handle);
/* An optional one: t NULL-ed (data NULL, ndim 0) where there is none. False: it is there and cannot be read. */
bool tap_torch_read_optional(const struct tap_torch_optional *o, struct tap_torch_tensor *t, bool *has);

const char *tap_torch_dtype_name(int32_t dtype); /* "BF16"; NULL: none that a recording has a word for */
uint64_t tap_torch_dtype_size(int32_t dtype);    /* bytes; 0 for those */
/* Elements one after the other, row-major. */
bool tap_torch_is_dense(const struct tap_torch_tensor *t);
/* Describe it. Dense, or two dimensions of which the rows are dense: they are copied one after the other. False: neither, or no known dtype. */
bool tap_torch_operand(struct tap_operand *o, const char *role, const struct tap_torch_tensor *t);

#pragma GCC visibility pop
#endif
