/* torch_abi.h - the part of PyTorch's C interface that reads a tensor, and how C++ passes one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, stable by design:
 * models that were compiled ahead of time call them. Numbers of dtypes: c10/core/ScalarType.h; of
 * devices: c10/core/DeviceType.h. Nothing here is linked: the functions are looked up in the torch
 * at hand.
 *
 * An AtenTensorHandle is an at::Tensor*, and that is what a C++ function gets for an `at::Tensor
 * &`. An optional tensor is passed by its address. A returned tensor is built where a hidden first
 * argument points (x86-64). */
#ifndef TD_KERNELS_ABI_TORCH_ABI_H
#define TD_KERNELS_ABI_TORCH_ABI_H

#include <stdbool.h>
#include <stdint.h>

enum td_torch_dtype { /* c10::ScalarType */
    TD_TORCH_U8 = 0,
    TD_TORCH_I8 = 1,
    TD_TORCH_I32 = 3,
    TD_TORCH_I64 = 4,
    TD_TORCH_F16 = 5,
    TD_TORCH_F32 = 6,
    TD_TORCH_BF16 = 15
};

enum td_torch_device { TD_TORCH_CPU = 0 }; /* c10::DeviceType */

typedef const void *td_torch_tensor; /* at::Tensor*, an AtenTensorHandle */

/* libstdc++'s std::optional<at::Tensor>: the tensor, which is one pointer, then whether it is
 * there. */
struct td_torch_optional { const void *tensor; bool has; };

/* Each returns 0, or an error (AOTITorchError). Sizes and strides, in elements, are torch's own
 * memory, valid as long as the tensor is. */
typedef int32_t td_torch_get_dim(td_torch_tensor, int64_t *ndim); /* aoti_torch_get_dim */
/* aoti_torch_get_sizes, _get_strides */
typedef int32_t td_torch_get_lengths(td_torch_tensor, int64_t **per_dimension);
/* aoti_torch_get_dtype, _get_device_type */
typedef int32_t td_torch_get_enum(td_torch_tensor, int32_t *value);
/* torch_get_const_data_ptr, since torch 2.10; before that aoti_torch_get_data_ptr, which asks for
 * memory to write in: it warns of a tensor that is being traced, and gives a tensor that shares
 * memory a copy of its own. */
typedef int32_t td_torch_get_data(td_torch_tensor, void **data);

#endif
