/* product_share.h - a large product is computed by all threads that have nothing else to do.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Who runs a product offers its columns in chunks; whoever waits in td_product_help_until() takes some.
 * The results are the same, bit for bit, whoever computes which. */
#ifndef TD_KERNELS_OPS_PRODUCT_SHARE_H
#define TD_KERNELS_OPS_PRODUCT_SHARE_H

#include <stdbool.h>

#include "kernels/ops/product_ref.h"

/* Compute all columns, with the help of those who wait. TD_ENOMEM. */
int td_product_run(const struct td_product *p);
/* Help others until there is something else to do.
 *   is_due : asked between two chunks, with a lock held: it may only look */
void td_product_help_until(bool (*is_due)(const void *ctx), const void *ctx);
/* Has to be called when something has become due. */
void td_product_wake(void);

#endif
