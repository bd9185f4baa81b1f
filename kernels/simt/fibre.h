/* fibre.h - a thread of an emulated GPU: a stack of its own, switched to and from by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Fibres run on the stack of nobody else, so that a kernel that overruns its locals meets a guard page. AddressSanitizer is told of every
 * switch. One process-wide pool; its user holds a lock (launch.c). */
#ifndef TD_KERNELS_SIMT_FIBRE_H
#define TD_KERNELS_SIMT_FIBRE_H

#include "common/error.h"

/* Have at least n fibres. They stay until td_fibre_release. TD_EINVAL, TD_ENOMEM. */
int td_fibre_reserve(int n, struct td_error *err);
void td_fibre_release(void);
/* Let fibre i begin entry(arg) when it is resumed next; what it did before is forgotten. entry must end by td_fibre_yield and never return. */
void td_fibre_start(int i, void (*entry)(void *arg), void *arg);
/* From the scheduler: run fibre i until it yields. */
void td_fibre_resume(int i);
/* From a fibre: back to the scheduler. */
void td_fibre_yield(void);

#endif
