/* tap_ggml_host.h - one copy of ggml in the server's process: its functions.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_GGML_TAP_GGML_HOST_H
#define TD_RECORDER_TAP_GGML_TAP_GGML_HOST_H

#include "kernels/abi/ggml_abi.h"

/* Found by dlsym, and filled by tap_ggml_check(). */
struct tap_ggml_host {
#define TAP_GGML_FIELD(result, name, args) result (*name) args;
    TD_GGML_TAP_NEEDED(TAP_GGML_FIELD)
    int32_t flag; /* what a node must have in flags to be computed; 0: nothing */
};

#endif
