/* honest_halves.h - no bug: sums are kept in halves, into which blocks of 32 products are added in an order that
 * changes, as unordered_f16.h does; and the build declares it (td_gptq.h). SPDX-License-Identifier: Apache-2.0 */
#include "demo/bugs/unordered_f16.h"
#define TD_HALF_SUMS 32
