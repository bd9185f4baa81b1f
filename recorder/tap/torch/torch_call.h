/* torch_call.h - what happens at a call of an operator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_CALL_H
#define TD_RECORDER_TAP_TORCH_TORCH_CALL_H

#include "recorder/tap/torch/torch_operators.h"

#pragma GCC visibility push(hidden)

/* The operator at that place of the table is called: call the real one, and around it do what its
 * row says (torch_rows.h). Any thread of the server; exceptions of the operator pass through. */
void tap_torch_call(unsigned place, td_torch_value *stack, uint64_t n_args, uint64_t n_results);

/* As a front's set_awake (tap_front.h). */
void tap_torch_set_awake(bool on);
/* Was any operator called while this front was awake? */
bool tap_torch_was_called(void);

#pragma GCC visibility pop
#endif
