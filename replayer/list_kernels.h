/* list_kernels.h - `replay --kernels PATH [WORD ...]`: list the GPU kernels of a file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_LIST_KERNELS_H
#define TD_REPLAYER_LIST_KERNELS_H

#include "common/error.h"

/* Print a line for each kernel whose symbol, architectures or family hold every word (case
 * matters). Architectures that have a kernel with the same parameters share its line. Programs that
 * cannot be read are named on stderr and counted. Returns the program's exit code. */
int td_list_kernels(const char *path, const char *const *words, int n_words);

#endif
