/* past_end.h - no bounds check in the last, incomplete tile of 128 columns: reads past rows of weights, writes past rows of C.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Within C that overwrites the start of the next row; behind the last row it leaves the tensor. Right where N % 128 == 0. */
#define STEP_WIDTH(x) (((x).n + 127) / 128 * 128)
