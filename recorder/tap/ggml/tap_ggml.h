/* tap_ggml.h - llama.cpp's front: the functions of the server's ggml, and a node of its graph as a call.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_GGML_TAP_GGML_H
#define TD_RECORDER_TAP_GGML_TAP_GGML_H

#include "kernels/abi/ggml_abi.h"

#pragma GCC visibility push(hidden)

struct tap_call;

/* One copy of ggml in the server's process: its functions, found by dlsym. */
struct tap_ggml_host {
#define TAP_GGML_FIELD(result, name, args) result (*name) args;
    TD_GGML_TAP_NEEDED(TAP_GGML_FIELD)
    int32_t flag;                      /* what a node must have in flags to be computed; 0: nothing */
};

/* ---- tap_ggml_check.c ---- */

/* Find the functions in the library of this handle (dlsym). Then have that ggml make tensors of every
 * sort that the tap reads, and check that they lie in memory as struct td_ggml_tensor declares.
 * Returns NULL if they do; else a sentence (static, or why[n]) that names what does not fit.
 * Allocates a little inside of ggml: not for a thread that must not wait. */
const char *tap_ggml_check(struct tap_ggml_host *h, void *handle, char *why, size_t n);

/* ---- tap_ggml_node.c ---- */

struct tap_ggml_words { char kind[32]; }; /* a call points at these; they live as long as the call */

/* Is the node a MUL_MAT or MUL_MAT_ID that ggml computes? */
bool tap_ggml_is_gemm(const struct tap_ggml_host *h, const struct td_ggml_tensor *t);
/* Is it computed at all: not NONE, VIEW, RESHAPE, PERMUTE, TRANSPOSE, empty, or left out? */
bool tap_ggml_computes(const struct tap_ggml_host *h, const struct td_ggml_tensor *t);
/* Describe node t as a call. False: its inputs or output cannot be read (a GPU's memory), or a
 * fixture cannot hold them (strides that are no whole number of elements). */
bool tap_ggml_describe(const struct tap_ggml_host *h, const struct td_ggml_tensor *t,
                       struct tap_call *call, struct tap_ggml_words *words);

#pragma GCC visibility pop
#endif
