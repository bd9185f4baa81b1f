/* torch_fingerprints.h - weights that a server keeps in a form that the tap cannot read: a sample of
 * each is taken when it is made, and found again by an id.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A table of fixed size for the whole process. Ids of different kinds share it: handles and tensors
 * on a device have addresses that differ. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_FINGERPRINTS_H
#define TD_RECORDER_TAP_TORCH_TORCH_FINGERPRINTS_H

#include <stddef.h>

#include "common/desc/weight_fingerprint.h"
#include "recorder/tap/torch/tap_torch_tensor.h"

#pragma GCC visibility push(hidden)

/* Copies n bytes of a tensor, at most 4. False: they cannot be read. */
typedef bool tap_copy_bytes(void *to, const void *from, size_t n, void *user);

/* Sample matrix w, whose elements are of 2 or 4 bytes.
 *   rows : the dimension that is the rows of the matrix in the checkpoint: 0 or 1
 * False: it is no such matrix, it has no elements, or copy said so. */
bool tap_torch_fingerprint(struct td_weight_fingerprint *p, const struct tap_torch_tensor *w,
                           int rows, tap_copy_bytes *copy, void *user);
/* The same of a tensor in the memory of this process. */
bool tap_torch_fingerprint_here(struct td_weight_fingerprint *p, const struct tap_torch_tensor *w,
                                int rows);

/* Remember p, which malloc() made and which is never freed (another thread may be reading the one
 * that it replaces), for this id, which is not 0. NULL: what has this id now is not known. While a
 * model is loaded; any thread. */
void tap_torch_fingerprint_keep(uint64_t id, const struct td_weight_fingerprint *p);
/* NULL: none was kept. Any thread, without a lock. */
const struct td_weight_fingerprint *tap_torch_fingerprint_of(uint64_t id);

#pragma GCC visibility pop
#endif
