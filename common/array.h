/* array.h - growable arrays: room for one more element.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_ARRAY_H
#define TD_COMMON_ARRAY_H

#include <stddef.h>

/* Make room for one more element at the end of a malloc'd array.
 *   array      : address of the array's pointer (T **), which may move; NULL in it: nothing there yet
 *   n, *cap    : elements used, elements there is room for
 *   elem_bytes : sizeof(T)
 *   max        : most elements that the array may hold
 * TD_OK; TD_ELIMIT: it holds max already; TD_ENOMEM. After a failure the array is as it was. */
int td_array_grow(void *array, size_t n, size_t *cap, size_t elem_bytes, size_t max);

#endif
