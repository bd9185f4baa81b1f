/* tap_memory.h - the memory that the recorder shares: checked, mapped, unmapped.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the tap's own thread, while not armed and no thread is inside (tap_ring_slots_are_idle()). */
#ifndef TD_RECORDER_TAP_CORE_TAP_MEMORY_H
#define TD_RECORDER_TAP_CORE_TAP_MEMORY_H

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* Map the memory that came with ATTACH; fd is borrowed, -1: none came. Fills tap_plan and
 * tap_ring_slots. What could hurt later is checked first: the size, that the memory cannot shrink,
 * that all of it is allocated. Returns NULL, or a static sentence that says why not. */
const char *tap_memory_attach(int fd, const struct tap_msg *m);
/* Also in the child of a fork. Nothing when nothing is mapped. */
void tap_memory_unmap(void);

#pragma GCC visibility pop
#endif
