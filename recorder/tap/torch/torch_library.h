/* torch_library.h - what came of the registration of operators.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_LIBRARY_H
#define TD_RECORDER_TAP_TORCH_TORCH_LIBRARY_H

#pragma GCC visibility push(hidden)

/* Why the operators of this torch are not seen, a sentence for the user; NULL: they are, or no
 * library registered any. Any thread. */
const char *tap_torch_refused(void);
/* A function of the library that operators were registered with (libtorch_cpu.so); NULL: none. */
const void *tap_torch_library_function(void);

#pragma GCC visibility pop
#endif
