/* ggml_repacked.h - weights in a layout into which ggml repacks them: CPU_REPACK, AMX ...
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_GGML_REPACKED_H
#define TD_KERNELS_PROVIDERS_GGML_REPACKED_H

#include "common/error.h"
#include "kernels/providers/ggml_build.h"

/* Give a tensor its data as the build repacks them, in a buffer of its own, so that the build's kernels for
 * that layout multiply with it.
 *   layout : the name of ggml's buffer type, as recorded ("CPU_REPACK")
 *   t      : dense; without data and buffer
 *   data   : ggml_nbytes(t) bytes in the layout of a GGUF file
 *   buffer : filled; released by td_ggml_repacked_free. NULL: this build, on this machine, has no such
 *            layout, or none for this tensor; t is as it was, and such a server would not repack it either
 * TD_ENOMEM. */
int td_ggml_repacked(const struct td_ggml_build *b, const char *layout, struct td_ggml_tensor *t, const void *data,
                     struct td_ggml_buffer **buffer, struct td_error *err);
void td_ggml_repacked_free(const struct td_ggml_build *b, struct td_ggml_buffer *buffer);

#endif
