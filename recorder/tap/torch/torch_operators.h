/* torch_operators.h - every operator that a library registered by torch's stable C ABI.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A table of fixed size, filled while libraries are loaded and never emptied: an operator keeps its
 * place, because torch keeps the function that stands for it (torch_trampolines.h). */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_OPERATORS_H
#define TD_RECORDER_TAP_TORCH_TORCH_OPERATORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/abi/torch_abi.h"
#include "recorder/tap/core/tap_proto.h"
#include "recorder/tap/torch/torch_rows.h"

#pragma GCC visibility push(hidden)

#define TAP_TORCH_OPERATORS 512u      /* vLLM 0.26 registers 125 */

/* An implementation of an operator for one dispatch key. */
struct tap_torch_operator {
    char name[TAP_OPERATOR];          /* "_C::machete_mm" */
    char key[TAP_OPERATOR_KEY];       /* the dispatch key, "CUDA" */
    td_torch_boxed *real;             /* what the library registered */
    /* NULL: not defined yet, by a library that the tap did not see, or in a form that it cannot
     * read. Never freed. */
    _Atomic(const struct tap_torch_schema *) schema;
    /* NULL: it is only counted. Of implementations for CUDA alone, which torch's build for ROCm
     * calls so as well. */
    _Atomic(const struct tap_torch_meaning *) meaning;
    const struct tap_torch_meaning *built_in; /* what the tap's own row makes of it; NULL: none */
    _Atomic bool repacks;             /* meaning->row->does says so */
    /* While the tap is armed: */
    _Atomic uint64_t calls;
    _Atomic uint64_t bytes;           /* of their tensors, as far as they could be read */
    uint64_t sent_calls, sent_bytes;  /* the tap's thread: how many of each it has reported */
};

/* The lock of all tables of this front. Never held while torch or the dynamic linker is called, and
 * free in the child of a fork. */
void tap_torch_lock(void);
void tap_torch_unlock(void);

/* Remember an operator's definition. A name that was defined before keeps its first one. Allocates;
 * any thread. */
void tap_torch_define(const char *ns, const char *schema);
/* Remember an implementation, and what its trampoline is to call. The same name and key again (a
 * library that registers twice) get a place of their own. Returns its place; -1: the table is full,
 * or the name too long. Allocates; any thread. */
int tap_torch_implement(const char *ns, const char *key, const char *name, td_torch_boxed *real);

/* Other rows of the user's count now (torch_own_rows.h): give each operator its meaning. Allocates. */
void tap_torch_operators_mean_again(void);

/* Any thread, without a lock. */
unsigned tap_torch_operator_count(void);
struct tap_torch_operator *tap_torch_operator_at(unsigned i); /* i < count */
/* The operator's implementation for that key that was registered last; NULL: none. */
struct tap_torch_operator *tap_torch_operator_named(const char *name, const char *key);

/* Names that found no place in the table. */
unsigned tap_torch_operators_left_out(void);

#pragma GCC visibility pop
#endif
