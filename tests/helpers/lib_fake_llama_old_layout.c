/* lib_fake_llama_old_layout.c - the same with tensors laid out as before November 2024, when they still had a gradient.
 * SPDX-License-Identifier: Apache-2.0 */
#define OLD_LAYOUT
#include "tests/helpers/lib_fake_llama.c"
