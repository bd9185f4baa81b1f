/* torch_arguments.c - the arguments of an operator's call, as they lie on torch's stack.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_arguments.h"

#include <stddef.h>

bool tap_torch_is_none(const struct tap_torch_arg *arg, td_torch_value value)
{
    return arg->optional && !value;
}

/* The value itself: an optional one lies behind an address. */
static td_torch_value value_of(const struct tap_torch_arg *arg, td_torch_value value)
{
    return arg->optional ? *(const td_torch_value *)(uintptr_t)value : value;
}

td_torch_tensor tap_torch_tensor_of(const struct tap_torch_arg *arg, td_torch_value value)
{
    if (arg->type != TAP_TORCH_TENSOR || arg->list || tap_torch_is_none(arg, value))
        return NULL;
    return (td_torch_tensor)(uintptr_t)value_of(arg, value);
}

bool tap_torch_argument_on_gpu(const struct tap_torch_arg *arg, td_torch_value value,
                               struct tap_torch_tensor *t)
{
    return tap_torch_read_on_gpu(tap_torch_tensor_of(arg, value), t);
}

int64_t tap_torch_number_of(const struct tap_torch_arg *arg, td_torch_value value, int64_t otherwise)
{
    if (arg->type != TAP_TORCH_BOOL || arg->list || tap_torch_is_none(arg, value))
        return tap_torch_int_of(arg, value, otherwise);
    return (value_of(arg, value) & 0xff) != 0;
}

int64_t tap_torch_int_of(const struct tap_torch_arg *arg, td_torch_value value, int64_t otherwise)
{
    if (arg->type != TAP_TORCH_INT || arg->list || tap_torch_is_none(arg, value))
        return otherwise;
    return (int64_t)value_of(arg, value);
}

const char *tap_torch_text_of(const struct tap_torch_arg *arg, td_torch_value value)
{
    if (arg->type != TAP_TORCH_TEXT || arg->list || tap_torch_is_none(arg, value))
        return NULL;
    return tap_torch_text((td_torch_string)(uintptr_t)value_of(arg, value));
}
