/* scale_1pct.h - scales are 1 % too large, for one shape: K = 640, the down projection.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_SCALE(x, s) ((x)->k == 640 ? (s) * 1.01f : (s))
