/* guard.h - memory for a tensor that ends at a forbidden page, with poisoned gaps around it.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   [ no access ][ ... front gap | tensor | tail gap (less than `align` bytes) ][ no access ]
 *
 * The tail gap exists only because the tensor's address keeps its recorded alignment. Both gaps
 * hold a pattern; after a run td_guard_check() tells whether the pattern is intact. The mapping is
 * used again for the next tensor. */
#ifndef TD_REPLAYER_CHILD_GUARD_H
#define TD_REPLAYER_CHILD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/hash.h"
#include "model/dtype.h"

#define TD_GUARD_GAP_BYTE 0xA7
#define TD_GUARD_FRONT 256   /* bytes in front of the tensor that are poisoned and checked */

struct td_guard {
    uint8_t *map;            /* first byte of the first forbidden page; NULL: nothing is mapped */
    size_t map_bytes;        /* both forbidden pages included */
    uint8_t *data;           /* the tensor */
    size_t size, tail;       /* bytes of the tensor, and of the gap behind it */
    struct td_hash content;  /* the user's: what the tensor holds; zero since it was placed elsewhere */
};

/* Make room for a tensor of `size` bytes: g->data.
 *   align  : the address is a multiple of it; a power of two, at most a page; 0: 64
 *   at_end : true: the tensor ends at the forbidden page; false: it starts a page, with at least a
 *            free page behind it
 * A tensor of the same size and alignment lies where the last one lay, with its bytes; else they are undefined. The gaps
 * are poisoned. TD_OK, TD_ENOMEM, TD_ELIMIT (more than 1
 * TiB), TD_EINVAL. */
int td_guard_place(struct td_guard *g, size_t size, size_t align, bool at_end, struct td_error *err);
/* Check both gaps. 0: untouched. n > 0: the farthest write after the tensor's end hit byte n - 1
 * after it. -n < 0: the farthest write before the tensor's start hit n bytes before it. */
long td_guard_check(const struct td_guard *g);
/* Where does addr lie? 1: in the forbidden page after the tensor (*by: bytes from the tensor's
 * end), -1: in the forbidden page before it, 0: elsewhere. Safe in a signal handler. */
int td_guard_owns(const struct td_guard *g, const void *addr, long *by);
void td_guard_release(struct td_guard *g);

#endif
