/* gguf_types.h - what a GGUF file holds: a tensor, a value of its metadata, and the limits of both.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_MODEL_GGUF_TYPES_H
#define TD_MODEL_GGUF_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/dtype.h"

#define TD_GGUF_DIMS 4
#define TD_GGUF_MAX_TENSORS 1000000
#define TD_GGUF_MAX_KEYS 1000000
#define TD_GGUF_MAX_NAME 65535        /* bytes of a key or of a tensor's name */
#define TD_GGUF_MAX_FILES 1024

struct td_gguf_tensor {
    const char *name;                 /* "blk.3.ffn_down.weight"; valid until close */
    const char *dtype;                /* "Q4_1", "IQ4_XS"; "type-N": this version has no name for it */
    enum td_dtype td;                 /* TD_DT_NONE: a type that has no td_dtype */
    int ndim;
    int64_t ne[TD_GGUF_DIMS];         /* elements, innermost dimension first, as the file has it; 1 beyond ndim */
    int64_t shape[TD_GGUF_DIMS];      /* [ndim], outermost first, the last in blocks, as in a fixture */
    const void *data;                 /* dense, valid until close; NULL: empty, or of an unknown size */
    uint64_t bytes;
    const char *path;                 /* the file it lies in */
};

enum td_gguf_kind { TD_GGUF_NONE, TD_GGUF_INT, TD_GGUF_UINT, TD_GGUF_FLOAT, TD_GGUF_BOOL, TD_GGUF_STR, TD_GGUF_ARRAY };

struct td_gguf_value {                /* of an array only its length */
    enum td_gguf_kind kind;
    union { int64_t i; uint64_t u; double f; bool b; } v;
    const char *str;                  /* STR: len bytes and a NUL behind them; it may hold others */
    size_t len;                       /* of str; ARRAY: elements */
};

#endif
