/* column_tail.h - in the last, incomplete tile of 128 columns, scales and zero points are loaded before the bounds check.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the tail get the scales and zero points of 8 columns further on; the last ones wrap to
 * column 0. Right where N % 128 == 0. */
#define STEP_COLUMN(x, first) ((first) < (x).n / 128 * 128 ? (first) : (first) + 12 <= (x).n ? (first) + 8 : 0)
