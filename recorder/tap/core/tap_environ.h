/* tap_environ.h - variables of the environment as the process started with them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CORE_TAP_ENVIRON_H
#define TD_RECORDER_TAP_CORE_TAP_ENVIRON_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Copy a variable of the environment into out[max]: "" when the process did not start with it, or
 * its value does not fit. Reads /proc/self/environ, because getenv() races with a server that calls
 * setenv() in another thread. Allocates and reads a file: not in the path of a recorded call. May
 * change errno. */
void tap_environ_get(const char *name, char *out, size_t max);

#pragma GCC visibility pop
#endif
