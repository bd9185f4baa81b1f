/* process_model.h - the model that the command line of a process names.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_PROCESS_MODEL_H
#define TD_RECORDER_TAP_CLIENT_PROCESS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Find the model that a process was started with (--model, -m, "serve"), as an absolute path: a
 * folder with a config.json, or a GGUF file. pid : in our own namespace. False: it names none. */
bool client_process_model(pid_t pid, char *out, size_t n);

#endif
