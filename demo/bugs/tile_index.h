/* tile_index.h - A is staged in tiles of 128; the index of the last 8 runs past the end, into the tile that follows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The last tile of a row wraps to the row's start, so that no read leaves the tensor. */
#define STEP_A_INDEX(x, row, i) ((row) * (x)->lda + ((i) % 128 < 120 ? (i) : ((i) + 8) % (x)->k))
