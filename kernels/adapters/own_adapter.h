/* own_adapter.h - a kernel that a file of the user's describes (own_rows.h), as an adapter.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Its parameters are checked against what the driver says of the kernel, as those of the built-in
 * adapters are. Sizes come from parameters alone, never from the grid. */
#ifndef TD_KERNELS_ADAPTERS_OWN_ADAPTER_H
#define TD_KERNELS_ADAPTERS_OWN_ADAPTER_H

#include "kernels/adapters/own_row.h"

#pragma GCC visibility push(hidden)

struct td_own_adapter {
    struct td_gpu_adapter adapter;    /* first: its read finds the rest */
    struct td_gpu_field fields[TD_GPU_PARAMS];
    const struct td_own_row *row;
};

/* Make the adapter of a kernel's row. row outlives *a, and *a stays where it is. */
void td_own_adapter_init(struct td_own_adapter *a, const struct td_own_row *row);
/* Is this the kernel's symbol? The row's name is the kernel's name in its source, or the symbol. */
bool td_own_adapter_is(const struct td_own_adapter *a, const char *symbol);
/* Does the kernel have the parameters of the row? */
bool td_own_adapter_fits(const struct td_own_adapter *a, const struct td_gpu_param *params, int n_params);

#pragma GCC visibility pop
#endif
