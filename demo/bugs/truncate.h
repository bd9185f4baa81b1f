/* truncate.h - activations are cut (not rounded) to 8 significant bits, those of a bf16.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_A_BITS(h) ((uint16_t)((h) & 0xfff8u))
