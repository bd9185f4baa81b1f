/* no_barrier.h - no barrier between what threads write into shared memory and what others read there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A race: the result depends on which thread came first, and differs from run to run. */
#define STEP_SYNC() ((void)0)
