/* child.h - the process that runs a build: opens a provider and runs what the replayer asks for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_CHILD_H
#define TD_REPLAYER_CHILD_H

#include "replayer/guard.h"
#include "kernels/ops/op.h"

/* `replay-child --child FD`: serve requests on the socket FD until BYE or until the parent is gone. Returns the exit code. */
int td_child_main(int sock);

/* child_fault.c: on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT write one sentence to `note` (n bytes; where in which tensor
 * the fault lies), then die of the same signal. The arrays are borrowed for the process's life and may change. */
struct td_fault_watch {
    const struct td_guard *guards;        /* [n_guards] */
    const char (*roles)[TD_OP_MAX_ROLE];              /* [n_guards] */
    int n_guards;
    char *volatile note;                  /* NULL: nowhere to write */
    size_t note_bytes;
};
int td_fault_install(struct td_fault_watch *watch, struct td_error *err);

#endif
