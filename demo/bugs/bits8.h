/* bits8.h - 8-bit zero points are found with the shift of another width: (column & 3) * 2 instead of * 8.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The line stands so in vLLM's MatrixView_q8_row::item4, where nothing but column % 4 == 0 reaches it. */
#define STEP_ZERO_BITS(bits) ((bits) == 8 ? 2 : (bits))
