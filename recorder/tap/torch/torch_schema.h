/* torch_schema.h - an operator's schema as torch writes it: names and types of its arguments.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     machete_mm(Tensor A, Tensor B, int b_type, ScalarType? out_type, str? schedule) -> Tensor
 *
 * Source of the grammar: torch/csrc/jit/frontend/function_schema_parser.cpp, and the paragraph
 * "func" of aten/src/ATen/native/README.md. What follows is read as far as the tap needs it: which
 * arguments there are, which of them are tensors, and how many results come back. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_SCHEMA_H
#define TD_RECORDER_TAP_TORCH_TORCH_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define TAP_TORCH_ARGS 40             /* of an operator; vLLM's longest has 21 */
#define TAP_TORCH_ARG_NAME 48         /* bytes of a name, with the NUL */
#define TAP_TORCH_NAME 96             /* of an operator, "machete_mm", "scaled_fp4_quant.out" */

enum tap_torch_type {
    TAP_TORCH_TENSOR,
    TAP_TORCH_INT,                    /* int, SymInt */
    TAP_TORCH_FLOAT,
    TAP_TORCH_BOOL,
    TAP_TORCH_DTYPE,                  /* ScalarType */
    TAP_TORCH_TEXT,                   /* str */
    TAP_TORCH_OTHER                   /* Device, Generator, …: passed by, never read */
};

struct tap_torch_arg {
    char name[TAP_TORCH_ARG_NAME];
    enum tap_torch_type type;
    bool optional;                    /* "Tensor?": it may be None */
    bool list;                        /* "int[]", "Tensor[]": never read */
    bool written;                     /* "Tensor!", "Tensor(a!)": the operator writes it */
};

struct tap_torch_schema {
    char name[TAP_TORCH_NAME];
    int n_args, n_results;
    bool returns_tensor;              /* there is one result, a tensor that may not be None */
    struct tap_torch_arg arg[TAP_TORCH_ARGS];
};

/* Read a schema; the namespace before the name ("_C::") may be there, and is left out. False: it is
 * not of this form, or larger than the limits above. Allocates nothing; any thread. */
bool tap_torch_schema_read(const char *text, struct tap_torch_schema *s);
/* Index of the argument of that name, -1: there is none. */
int tap_torch_schema_arg(const struct tap_torch_schema *s, const char *name);

#pragma GCC visibility pop
#endif
