/* product_share.h - a large product is computed by all threads that have nothing else to do.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Who runs a product offers its columns in chunks; whoever waits in td_product_help_while() takes some.
 * The results are the same, bit for bit, whoever computes which. */
#ifndef TD_KERNELS_OPS_PRODUCT_SHARE_H
#define TD_KERNELS_OPS_PRODUCT_SHARE_H

#include <stdatomic.h>

#include "kernels/ops/product_ref.h"

/* Compute all columns, with the help of those who wait. TD_ENOMEM. */
int td_product_run(const struct td_product *p);
/* Help others until *working is 0. */
void td_product_help_while(const atomic_int *working);
/* Has to be called when *working has become 0. */
void td_product_wake(void);

#endif
