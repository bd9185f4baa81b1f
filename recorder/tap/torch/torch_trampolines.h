/* torch_trampolines.h - a function for each operator, which torch calls in place of the real one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A call of torch's stable C ABI has no user data: only the function's own address tells which
 * operator it is. So there is a table of functions that differ in a number alone. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_TRAMPOLINES_H
#define TD_RECORDER_TAP_TORCH_TORCH_TRAMPOLINES_H

#include "recorder/tap/torch/torch_operators.h"

#pragma GCC visibility push(hidden)

/* The function that stands for the operator at that place of the table: it calls
 * tap_torch_call(place, ...). */
td_torch_boxed *tap_torch_trampoline(unsigned place);
/* Is it one of these? */
bool tap_torch_is_trampoline(td_torch_boxed *fn);

#pragma GCC visibility pop
#endif
