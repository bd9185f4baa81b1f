/* fibre.h - a thread of an emulated GPU: a stack of its own, switched to and from by hand.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each fibre has a stack that ends at a guard page, so that a kernel that overruns its locals meets it.
 * AddressSanitizer is told of every switch. ThreadSanitizer keeps one list of calls for all fibres of a
 * thread: what is called there and does not return must not be in it (TD_FIBRE_NO_RETURN). There is one pool for the process; its user holds a lock
 * (launch.c). */
#ifndef TD_KERNELS_SIMT_FIBRE_H
#define TD_KERNELS_SIMT_FIBRE_H

#include "common/error.h"

/* A function that a fibre leaves by its last td_fibre_yield: each run of a block would make the list of
 * ThreadSanitizer longer, until it overflows and the process dies of SIGBUS. */
#define TD_FIBRE_NO_RETURN __attribute__((no_sanitize("thread")))

/* Make sure that at least n fibres exist. They stay until td_fibre_release. TD_EINVAL, TD_ENOMEM. */
int td_fibre_reserve(int n, struct td_error *err);
void td_fibre_release(void);
/* Let fibre i begin entry(arg) when it is resumed next; what it did before is dropped. entry must end in
 * td_fibre_yield and never return. */
void td_fibre_start(int i, void (*entry)(void *arg), void *arg);
/* From the scheduler: run fibre i until it yields. */
void td_fibre_resume(int i);
/* From a fibre: go back to the scheduler. */
void td_fibre_yield(void);

#endif
