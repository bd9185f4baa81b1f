/* torch_abi.h - the part of PyTorch's C interface that reads a tensor and registers operators, and
 * how C++ passes a tensor.
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
    TD_TORCH_BF16 = 15,
    TD_TORCH_F8_E5M2 = 23,
    TD_TORCH_F8_E4M3 = 24             /* float8_e4m3fn */
};

/* c10::DeviceType. Torch's build for ROCm calls its devices CUDA's as well. */
enum td_torch_device { TD_TORCH_CPU = 0, TD_TORCH_CUDA = 1 };

typedef const void *td_torch_tensor; /* at::Tensor*, an AtenTensorHandle */
typedef const void *td_torch_string; /* std::string*, a StringHandle */

/* libstdc++'s std::optional<at::Tensor>: the tensor, which is one pointer, then whether it is
 * there. */
struct td_torch_optional { const void *tensor; bool has; };

/* Each returns 0, or an error (AOTITorchError). Sizes and strides, in elements, are torch's own
 * memory, valid as long as the tensor is. */
typedef int32_t td_torch_get_dim(td_torch_tensor, int64_t *ndim); /* aoti_torch_get_dim */
/* aoti_torch_get_sizes, _get_strides */
typedef int32_t td_torch_get_lengths(td_torch_tensor, int64_t **per_dimension);
/* aoti_torch_get_dtype, _get_device_type, _get_device_index */
typedef int32_t td_torch_get_enum(td_torch_tensor, int32_t *value);
/* aoti_torch_get_current_cuda_stream, of libtorch_cuda: the calling thread's stream on that device */
typedef int32_t td_torch_get_stream(int32_t device_index, void **stream);
/* torch_get_const_data_ptr, since torch 2.10; before that aoti_torch_get_data_ptr, which asks for
 * memory to write in: it warns of a tensor that is being traced, and gives a tensor that shares
 * memory a copy of its own. */
typedef int32_t td_torch_get_data(td_torch_tensor, void **data);
/* torch_string_c_str, since torch 2.10: the string's own memory */
typedef int32_t td_torch_get_text(td_torch_string, const char **text);

/* ---- operators ------------------------------------------------------------------------------- */

/* A value on an operator's stack (StableIValue). Its low bytes hold a bool, an int64_t, a double, a
 * tensor's or a text's handle, or the number of a dtype; an optional value is 0 or the address of such a value.
 * Source: torch/csrc/stable/stableivalue_conversions.h. */
typedef uint64_t td_torch_value;
/* An operator's implementation. It takes its arguments off stack[n_args]; its results lie in
 * stack[n_results] after it. */
typedef void td_torch_boxed(td_torch_value *stack, uint64_t n_args, uint64_t n_results);
typedef void *td_torch_library;       /* TorchLibraryHandle */

/* Each returns 0, or an error. */
/* aoti_torch_library_init_def, _init_fragment */
typedef int32_t td_torch_init(const char *ns, const char *file, uint32_t line,
                              td_torch_library *library);
/* aoti_torch_library_init_impl */
typedef int32_t td_torch_init_impl(const char *ns, const char *key, const char *file, uint32_t line,
                                   td_torch_library *library);
typedef int32_t td_torch_def(td_torch_library library, const char *schema); /* _library_def */
/* torch_library_def_with_tags, since torch 2.12 */
typedef int32_t td_torch_def_tags(td_torch_library library, const char *schema, const int32_t *tags,
                                  int32_t n_tags);
/* aoti_torch_library_impl */
typedef int32_t td_torch_impl(td_torch_library library, const char *name, td_torch_boxed *fn);
/* torch_library_impl, since torch 2.10; version: of the torch that the library was built with */
typedef int32_t td_torch_impl_version(td_torch_library library, const char *name,
                                      td_torch_boxed *fn, uint64_t version);
typedef int32_t td_torch_delete(td_torch_library library); /* aoti_torch_delete_library_object */

/* aoti_torch_abi_version: torch's version. The highest byte is the major number, the next one the
 * minor number. */
typedef uint64_t td_torch_version(void);

#endif
