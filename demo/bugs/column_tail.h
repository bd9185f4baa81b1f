/* column_tail.h - in the last, incomplete tile of 128 columns, scales and zero points are loaded before the bounds check.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The columns of the tail get the scales and zero points of 8 columns further on. On a GPU the last threads
 * would read past the row, and past the tensor in the last group; here they wrap to column 0, so that the
 * server lives and the numbers are wrong. Right where N % 128 == 0. */
#define STEP_COLUMN(x, first) ((first) < (x)->n / 128 * 128 ? (first) : (first) + 16 <= (x)->n ? (first) + 8 : 0)
