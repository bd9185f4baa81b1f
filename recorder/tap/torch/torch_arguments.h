/* torch_arguments.h - the arguments of an operator's call, as they lie on torch's stack.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The call takes its arguments off the stack: read them before it. Any thread; nothing is
 * allocated, errno is kept. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_ARGUMENTS_H
#define TD_RECORDER_TAP_TORCH_TORCH_ARGUMENTS_H

#include "kernels/abi/torch_abi.h"
#include "recorder/tap/torch/tap_torch_tensor.h"
#include "recorder/tap/torch/torch_schema.h"

#pragma GCC visibility push(hidden)

/* Is the argument None? */
bool tap_torch_is_none(const struct tap_torch_arg *arg, td_torch_value value);
/* The handle of an argument that is a tensor; NULL: it is none, or None. */
td_torch_tensor tap_torch_tensor_of(const struct tap_torch_arg *arg, td_torch_value value);
/* Read an argument that is a tensor on a GPU. False: it is not one, is None, or cannot be read. */
bool tap_torch_argument_on_gpu(const struct tap_torch_arg *arg, td_torch_value value,
                               struct tap_torch_tensor *t);
/* The value of an argument that is a bool (one byte of it is meant), or an int; `otherwise`: it is
 * neither, or None. */
int64_t tap_torch_number_of(const struct tap_torch_arg *arg, td_torch_value value, int64_t otherwise);
/* The value of an argument that is an int; `otherwise`: it is none, or None. */
int64_t tap_torch_int_of(const struct tap_torch_arg *arg, td_torch_value value, int64_t otherwise);
/* The value of an argument that is a text, valid as long as the argument is; NULL: it is none, or None, or this torch
 * does not tell. */
const char *tap_torch_text_of(const struct tap_torch_arg *arg, td_torch_value value);

#pragma GCC visibility pop
#endif
