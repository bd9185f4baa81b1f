/* last_k_nibbles.h - in the last 32 rows of W the two 4-bit weights of every byte are swapped.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_WORD(x, word, i)                                                                                                 \
    ((x)->bits == 4 && (i) >= (x)->k - 32 ? ((word) >> 4 & 0x0f0f0f0fu) | ((word) & 0x0f0f0f0fu) << 4 : (word))
