/* tap_ggml_node.h - a node of ggml's graph as a call of a kernel.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any thread that owns the graph; nothing here allocates, waits or changes errno. */
#ifndef TD_RECORDER_TAP_GGML_TAP_GGML_NODE_H
#define TD_RECORDER_TAP_GGML_TAP_GGML_NODE_H

#include "recorder/tap/ggml/tap_ggml_host.h"

#pragma GCC visibility push(hidden)

struct tap_call;

/* Strings that a call points at; they live as long as the call. */
struct tap_ggml_words { char kind[32]; };

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
