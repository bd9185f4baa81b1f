/* tap_ggml_abi.h - the part of ggml's binary interface that the tap reads, and the host's own functions, found by dlsym.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: ggml/include/ggml.h (struct ggml_tensor, ggml_init_params) and ggml-backend.h of llama.cpp b11434. The layout has been this one since
 * grad and backend left the struct (November 2024). It is no promise: tap_ggml_check() asks the host before anything is read by it, and numbers
 * of enums (ops, types), which do move, are only ever turned into names by the host itself. */
#ifndef TD_KERNELS_ABI_TAP_GGML_ABI_H
#define TD_KERNELS_ABI_TAP_GGML_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define TG_DIMS 4
#define TG_SRC 10
#define TG_PARAMS 16                   /* int32_t */
#define TG_NAME 64
#define TG_OBJECT 32                   /* what ggml_tensor_overhead() counts before the tensor */
#define TG_FAILED (-1)                 /* GGML_STATUS_FAILED */
#define TG_USAGE_WEIGHTS 1             /* GGML_BACKEND_BUFFER_USAGE_WEIGHTS */
#define TG_FLAG_COMPUTE 16             /* GGML_TENSOR_FLAG_COMPUTE: in trees that have it, nodes without it stand in a graph and are left out */

struct tg_buffer;                      /* opaque, as the next three */
struct tg_sched;
struct tg_graph;
struct tg_context;

struct tg_tensor {                     /* struct ggml_tensor */
    int32_t type;
    struct tg_buffer *buffer;
    int64_t ne[TG_DIMS];               /* elements, innermost dimension first */
    size_t nb[TG_DIMS];                /* bytes from one to the next; nb[0] is that of a block */
    int32_t op, op_params[TG_PARAMS], flags;
    struct tg_tensor *src[TG_SRC], *view_src;
    size_t view_offs;
    void *data;
    char name[TG_NAME];
    void *extra;
    char padding[8];
};

struct tg_init_params { size_t mem_size; void *mem_buffer; bool no_alloc; };

typedef bool tg_callback(struct tg_tensor *t, bool ask, void *data);
typedef int tg_compute(struct tg_sched *, struct tg_graph *);
typedef void tg_set_callback(struct tg_sched *, tg_callback *, void *data);
typedef void tg_free_sched(struct tg_sched *);

/* X(result, name without "ggml_", arguments): what a host must have */
#define TG_FUNCTIONS(X) \
    X(size_t, tensor_overhead, (void)) X(const char *, get_name, (const struct tg_tensor *)) X(void *, get_data, (const struct tg_tensor *)) \
    X(const char *, op_name, (int)) X(const char *, op_desc, (const struct tg_tensor *)) X(const char *, type_name, (int)) \
    X(size_t, type_size, (int)) X(int64_t, blck_size, (int)) X(size_t, nbytes, (const struct tg_tensor *)) \
    X(struct tg_tensor *, graph_node, (struct tg_graph *, int)) X(int, graph_n_nodes, (struct tg_graph *)) \
    X(const char *, backend_buffer_name, (struct tg_buffer *)) X(bool, backend_buffer_is_host, (struct tg_buffer *)) \
    X(int, backend_buffer_get_usage, (struct tg_buffer *)) \
    X(struct tg_context *, init, (struct tg_init_params)) X(void, free, (struct tg_context *)) \
    X(struct tg_tensor *, new_tensor_4d, (struct tg_context *, int, int64_t, int64_t, int64_t, int64_t)) \
    X(struct tg_tensor *, set_name, (struct tg_tensor *, const char *)) \
    X(struct tg_tensor *, mul_mat, (struct tg_context *, struct tg_tensor *, struct tg_tensor *)) \
    X(struct tg_tensor *, scale, (struct tg_context *, struct tg_tensor *, float)) \
    X(struct tg_tensor *, view_1d, (struct tg_context *, struct tg_tensor *, int64_t, size_t)) \
    X(struct tg_buffer *, backend_cpu_buffer_from_ptr, (void *, size_t)) X(void, backend_buffer_free, (struct tg_buffer *)) \
    X(struct tg_graph *, new_graph_custom, (struct tg_context *, size_t, bool)) \
    X(void, build_forward_expand, (struct tg_graph *, struct tg_tensor *)) \
    X(int, backend_tensor_alloc, (struct tg_buffer *, struct tg_tensor *, void *)) \
    X(void, backend_sched_set_eval_callback, (struct tg_sched *, tg_callback *, void *))

#define TG_FIELD(result, name, args) result (*name) args;
struct tg_host {
    TG_FUNCTIONS(TG_FIELD)
    int32_t flag;                      /* what a node must have in flags to be computed; 0: every node is */
};

/* Find the functions in the library of this handle (dlsym), then have the host make tensors of every sort that the tap reads and look whether
 * they lie in memory as struct tg_tensor says. NULL: they do. Else a sentence (static, or why[n]) that names what does not fit.
 * Allocates a little inside of ggml; not for a thread that must not wait. */
const char *tap_ggml_check(struct tg_host *h, void *handle, char *why, size_t n);

/* ---- tap_ggml_node.c: one node of a graph as a call ---------------------------------------------------------------------- */

struct tap_call;

struct tg_words { char kind[32]; };    /* what a call points at; lives as long as the call */

bool tap_ggml_is_gemm(const struct tg_host *h, const struct tg_tensor *t);   /* MUL_MAT and MUL_MAT_ID that are computed */
bool tap_ggml_computes(const struct tg_host *h, const struct tg_tensor *t);  /* not NONE, VIEW, RESHAPE, PERMUTE, TRANSPOSE, empty, or left out */
/* Describe node t. False: its inputs or output cannot be read (a GPU's memory), or no fixture can hold them (strides that are no whole elements). */
bool tap_ggml_describe(const struct tg_host *h, const struct tg_tensor *t, struct tap_call *call, struct tg_words *words);

#pragma GCC visibility pop
#endif
