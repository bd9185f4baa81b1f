/* tap_environ.h - variables of the environment as they were when the tap was loaded.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_ENVIRON_H
#define TD_RECORDER_TAP_CORE_TAP_ENVIRON_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Copy a variable of the environment into out[max]: "" when it was not there as the tap was loaded,
 * or its value does not fit. Only TD_TAP_* and XDG_RUNTIME_DIR are kept, by the library's
 * constructor: later getenv() races with a server that calls setenv() in another thread, and
 * /proc/self/environ is overwritten by a server that gives its process a title (vLLM does).
 * Allocates nothing, and any thread may call it. */
void tap_environ_get(const char *name, char *out, size_t max);

#pragma GCC visibility pop
#endif
