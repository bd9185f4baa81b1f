/* list_kernels.h - `replay --kernels PATH [WORD ...]`: which GPU kernels a file holds, and which of them replay knows.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_LIST_KERNELS_H
#define TD_REPLAYER_LIST_KERNELS_H

#include "common/error.h"

/* Print a line for each kernel whose symbol, architectures or family hold every word (case matters), once for all architectures that have it with the same
 * parameters. Programs that cannot be read are named on stderr and counted. Returns an exit code of the program. */
int td_list_kernels(const char *path, const char *const *words, int n_words);

#endif
