/* tap_torch_tensor.h - read PyTorch's tensors from outside, and describe them as operands.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For every front that meets torch's tensors. torch's own C functions (kernels/abi/torch_abi.h) are
 * found in the process at run time; no torch is linked. Any thread. Reading takes no lock,
 * allocates nothing and keeps errno, unless torch's functions do otherwise. */
#ifndef TD_RECORDER_TAP_TORCH_TAP_TORCH_TENSOR_H
#define TD_RECORDER_TAP_TORCH_TAP_TORCH_TENSOR_H

#include "kernels/abi/torch_abi.h"
#include "recorder/tap/core/tap_call_desc.h"

#pragma GCC visibility push(hidden)

/* What is known of a tensor. Sizes and strides (in elements) are torch's memory, valid as long as
 * the tensor is. */
struct tap_torch_tensor {
    int64_t ndim;                  /* <= TAP_DIMS */
    const int64_t *sizes, *strides;
    int32_t dtype;                 /* enum td_torch_dtype, or a type that has no name here */
    int32_t device;                /* enum td_torch_device, or another one */
    const void *data;              /* on its device; NULL: it has no elements */
};

/* Find torch's functions by way of the library that defines fn. True: tensors can be read. False: a
 * function is missing (an older torch), for good; or another thread is looking now. Asks the
 * dynamic linker the first time; cheap after that; keeps errno. All functions below need it to have
 * been true. */
bool tap_torch_ready(const void *fn);

/* tap_torch_ready() has been true. Only loads. */
bool tap_torch_found(void);

/* Read all of a tensor but its data, on whatever device it lies: its memory is not asked for, which
 * an older torch would take for a write. False: it is none (NULL, more than TAP_DIMS dimensions,
 * negative strides), or torch returned an error. */
bool tap_torch_read_shape(td_torch_tensor tensor, struct tap_torch_tensor *t);
/* Read a tensor in the memory of this process, with its data. False also: it lies on another device,
 * or has no memory of its own. */
bool tap_torch_read(td_torch_tensor tensor, struct tap_torch_tensor *t);
/* Read a tensor on a device of CUDA or HIP, with its data. False also: it lies elsewhere. */
bool tap_torch_read_on_gpu(td_torch_tensor tensor, struct tap_torch_tensor *t);
/* Read an optional one: *has says whether it is there; if not, *t is zeroed. False: it is there and
 * cannot be read. */
bool tap_torch_read_optional(const struct td_torch_optional *o, struct tap_torch_tensor *t,
                             bool *has);
/* Does torch say that the tensor lies on a device that is not the CPU? */
bool tap_torch_is_on_device(td_torch_tensor tensor);

/* A text of torch's, with a NUL at its end; NULL: this torch (before 2.10) does not tell. */
const char *tap_torch_text(td_torch_string text);

/* The stream on which an operator works now, of the calling thread and a tensor's device.
 *   fn : a function of the library that has the operator: it is linked with torch's GPU library
 * False: it is not known. Asks the dynamic linker the first time; keeps errno. */
bool tap_torch_stream(const void *fn, td_torch_tensor tensor, void **stream);

/* "BF16"; NULL: a recording has no word for this type. */
const char *tap_torch_dtype_name(int32_t dtype);
uint64_t tap_torch_dtype_bytes(int32_t dtype);   /* of an element; 0 for a type without a name */
/* Its elements lie one after the other, row-major. */
bool tap_torch_is_dense(const struct tap_torch_tensor *t);
/* Describe *t as an operand: dense, or two dimensions whose rows are dense, which are then copied
 * one after the other. False: neither, or a type without a name. role is static. */
bool tap_torch_operand(struct tap_operand *o, const char *role, const struct tap_torch_tensor *t);

#pragma GCC visibility pop
#endif
