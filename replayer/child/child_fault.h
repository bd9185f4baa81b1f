/* child_fault.h - on a fatal signal, write down which tensor's end was passed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_CHILD_CHILD_FAULT_H
#define TD_REPLAYER_CHILD_CHILD_FAULT_H

#include "common/desc/op_desc.h"
#include "replayer/child/guard.h"

/* The arrays are borrowed for the process's life and may change. */
struct td_child_fault_watch {
    const struct td_guard *guards;        /* [n_guards] */
    const char (*roles)[TD_OP_MAX_ROLE];              /* [n_guards]; the tensors' names */
    int n_guards;
    char *volatile note;                  /* where the sentence goes; NULL: nowhere */
    size_t note_bytes;
};

/* On SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT write one sentence to watch->note, unless one is
 * there already: where in which tensor the fault lies. Then the process dies of the same signal.
 * TD_OK or TD_EIO. */
int td_child_fault_install(struct td_child_fault_watch *watch, struct td_error *err);

#endif
