/* tap_ggml_check.h - check that this ggml lays out its tensors as the tap declares them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_GGML_TAP_GGML_CHECK_H
#define TD_RECORDER_TAP_GGML_TAP_GGML_CHECK_H

#include "recorder/tap/ggml/tap_ggml_host.h"

#pragma GCC visibility push(hidden)

/* Find the functions in the library of this handle (dlsym). Then have that ggml make tensors of
 * every sort that the tap reads, and check that they lie in memory as struct td_ggml_tensor
 * declares. Returns NULL if they do; else a sentence (static, or why[n]) that names what does not
 * fit. Allocates a little inside of ggml: not for a thread that must not wait. */
const char *tap_ggml_check(struct tap_ggml_host *h, void *handle, char *why, size_t n);

#pragma GCC visibility pop
#endif
