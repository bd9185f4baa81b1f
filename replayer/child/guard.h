/* guard.h - memory for tensors that ends at a page nobody may touch, with poisoned gaps around the tensor.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   [ no access ][ ... front gap | tensor | tail gap (less than `align` bytes) ][ no access ]
 *
 * The tail gap exists only because the tensor's address keeps its recorded alignment. Both gaps hold a pattern; after a
 * run td_guard_check() tells whether somebody wrote there. A mapping is kept and used again for the next tensor. */
#ifndef TD_REPLAYER_CHILD_GUARD_H
#define TD_REPLAYER_CHILD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "model/dtype.h"

#define TD_GUARD_GAP_BYTE 0xA7
#define TD_GUARD_FRONT 256   /* bytes in front of the tensor that are poisoned and checked */

struct td_guard {
    uint8_t *map;            /* NULL: nothing mapped; first byte of the first forbidden page */
    size_t map_bytes;        /* both forbidden pages included */
    uint8_t *data;           /* the tensor now placed here */
    size_t size, tail;       /* its bytes; bytes of the tail gap */
};

/* Room for `size` bytes at an address that is a multiple of `align` (a power of two, at most 4096; 0 means 64).
 * at_end: the tensor ends at the forbidden page; false: it starts a page, with at least a free page behind it.
 * The content is undefined, the gaps are poisoned. Returns TD_OK or TD_ENOMEM. */
int td_guard_place(struct td_guard *g, size_t size, size_t align, bool at_end, struct td_error *err);
/* 0: both gaps are untouched; > 0: writes after the end were seen, the value is the last byte's distance + 1 from the end;
 * < 0: writes before the start, likewise. */
long td_guard_check(const struct td_guard *g);
/* Where addr lies: 1 in the page after the tensor (*by = distance from the tensor's end), -1 in the page before its
 * mapping, 0 elsewhere. Safe in a signal handler. */
int td_guard_owns(const struct td_guard *g, const void *addr, long *by);
void td_guard_release(struct td_guard *g);

#endif
