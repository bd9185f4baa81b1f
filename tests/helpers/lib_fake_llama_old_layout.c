/* lib_fake_llama_old_layout.c - lib_fake_llama.c with tensors laid out as before November 2024,
 * when a tensor still had a gradient: the tap must notice and leave the server alone.
 * SPDX-License-Identifier: Apache-2.0 */
#define OLD_LAYOUT
#include "tests/helpers/lib_fake_llama.c"
