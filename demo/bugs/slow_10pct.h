/* slow_10pct.h - right, and a tenth of the columns is computed twice.
 * SPDX-License-Identifier: Apache-2.0 */
#define STEP_MORE(work) (work)
