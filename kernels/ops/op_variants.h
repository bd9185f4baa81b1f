/* op_variants.h - the CPU variants that take an op as it is, by kind and name.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_OPS_OP_VARIANTS_H
#define TD_KERNELS_OPS_OP_VARIANTS_H

#include "kernels/ops/op_variant.h"

/* All of them, in the order of kernels.def; the last one is NULL. Static storage. */
const struct td_op_variant *const *td_op_variants(void);
/* The variant of that kind and name; name NULL: the first of that kind. Only variants that this
 * machine can run count. NULL: there is none. */
const struct td_op_variant *td_op_variant_find(const char *kind, const char *name);

#endif
