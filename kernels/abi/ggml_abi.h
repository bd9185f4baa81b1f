/* ggml_abi.h - the part of ggml's binary interface that Tapedeck uses: a tensor, a plan, functions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: ggml/include/ggml.h, ggml-cpu.h and ggml-backend.h of ggml 0.26 (MIT; llama.cpp b11434).
 * struct ggml_tensor has been the same since grad and backend left it (November 2024). Nothing here
 * is linked: functions are looked up in the ggml at hand, and before any tensor is read, that ggml's
 * own functions are asked whether fields lie where this header declares them (replay:
 * kernels/providers/ggml_build.c; the tap: recorder/tap/ggml/tap_ggml_check.c). Numbers of ops and
 * types differ between versions; names do not, so only the ggml at hand turns one into the other. */
#ifndef TD_KERNELS_ABI_GGML_ABI_H
#define TD_KERNELS_ABI_GGML_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_GGML_DIMS 4
#define TD_GGML_SRC 10
#define TD_GGML_PARAMS 16              /* int32_t */
#define TD_GGML_NAME 64
#define TD_GGML_OBJECT 32              /* ggml_tensor_overhead() counts so much before the tensor */
#define TD_GGML_FAILED (-1)            /* GGML_STATUS_FAILED */
#define TD_GGML_USAGE_WEIGHTS 1        /* GGML_BACKEND_BUFFER_USAGE_WEIGHTS */
/* GGML_TENSOR_FLAG_COMPUTE: in versions that have it, nodes of a graph without it are left out. */
#define TD_GGML_FLAG_COMPUTE 16

struct td_ggml_buffer;                 /* opaque, like the next five */
struct td_ggml_buffer_type;
struct td_ggml_backend;                /* ggml_backend_reg_t, ggml_backend_dev_t */
struct td_ggml_sched;
struct td_ggml_graph;
struct td_ggml_context;

struct td_ggml_tensor {                /* struct ggml_tensor */
    int32_t type;                      /* enum ggml_type */
    struct td_ggml_buffer *buffer;
    int64_t ne[TD_GGML_DIMS];          /* elements, innermost dimension first */
    size_t nb[TD_GGML_DIMS];           /* bytes from one to the next; nb[0]: from block to block */
    int32_t op;                        /* enum ggml_op */
    int32_t op_params[TD_GGML_PARAMS];
    int32_t flags;
    struct td_ggml_tensor *src[TD_GGML_SRC];
    struct td_ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[TD_GGML_NAME];
    void *extra;
    char padding[8];
};

struct td_ggml_init { size_t mem_size; void *mem_buffer; bool no_alloc; }; /* ggml_init_params */

/* struct ggml_cplan, which grows at its end from version to version: the room is for what a newer
 * version returns by value. */
union td_ggml_plan {
    struct {
        size_t work_size;
        uint8_t *work_data;
        int32_t n_threads;
        void *threadpool, *abort_callback, *abort_data;
    } s;
    char room[512];
};

/* struct ggml_type_traits_cpu: how the CPU backend multiplies with weights of a type. */
struct td_ggml_traits_cpu { void *from_float, *vec_dot; int32_t vec_dot_type; int64_t nrows; };

typedef bool td_ggml_callback(struct td_ggml_tensor *t, bool ask, void *data);
typedef int td_ggml_compute(struct td_ggml_sched *, struct td_ggml_graph *);
typedef void td_ggml_set_callback(struct td_ggml_sched *, td_ggml_callback *, void *data);
typedef void td_ggml_free_sched(struct td_ggml_sched *);
typedef void td_ggml_log(int32_t level, const char *text, void *data); /* ggml_log_callback */
#define TD_GGML_LOG_WARN 3             /* GGML_LOG_LEVEL_WARN; 4: an error; 5: the last text goes on */
/* ggml_backend_dev_get_extra_bufts_t: the buffer types in which a device repacks weights, up to a NULL */
typedef struct td_ggml_buffer_type **td_ggml_extra_types(struct td_ggml_backend *device);

/* ---- functions: X(result, name without "ggml_", arguments) ----------------------------------- */

/* For replay and for the tap. */
#define TD_GGML_BASIC(X) \
    X(struct td_ggml_context *, init, (struct td_ggml_init)) \
    X(void, free, (struct td_ggml_context *)) \
    X(struct td_ggml_tensor *, new_tensor_4d, \
      (struct td_ggml_context *, int32_t, int64_t, int64_t, int64_t, int64_t)) \
    X(struct td_ggml_tensor *, view_1d, \
      (struct td_ggml_context *, struct td_ggml_tensor *, int64_t, size_t)) \
    X(struct td_ggml_tensor *, mul_mat, \
      (struct td_ggml_context *, struct td_ggml_tensor *, struct td_ggml_tensor *)) \
    X(struct td_ggml_tensor *, scale, \
      (struct td_ggml_context *, struct td_ggml_tensor *, float)) \
    X(struct td_ggml_tensor *, set_name, (struct td_ggml_tensor *, const char *)) \
    X(void *, get_data, (const struct td_ggml_tensor *)) \
    X(size_t, nbytes, (const struct td_ggml_tensor *)) \
    X(size_t, tensor_overhead, (void)) \
    X(const char *, op_name, (int32_t)) \
    X(const char *, type_name, (int32_t)) \
    X(size_t, type_size, (int32_t)) \
    X(int64_t, blck_size, (int32_t)) \
    X(void, build_forward_expand, (struct td_ggml_graph *, struct td_ggml_tensor *))

/* What replay needs; the optional ones are NULL with a ggml that lacks them. */
#define TD_GGML_NEEDED(X) \
    TD_GGML_BASIC(X) \
    X(void, set_input, (struct td_ggml_tensor *)) \
    X(struct td_ggml_graph *, new_graph, (struct td_ggml_context *)) \
    X(union td_ggml_plan, graph_plan, (const struct td_ggml_graph *, int, void *)) \
    X(int, graph_compute, (struct td_ggml_graph *, union td_ggml_plan *))
#define TD_GGML_OPTIONAL(X) \
    X(void, cpu_init, (void)) \
    X(const struct td_ggml_traits_cpu *, get_type_traits_cpu, (int32_t)) \
    X(const char *, version, (void)) \
    X(const char *, commit, (void)) \
    X(void, log_set, (td_ggml_log *, void *)) \
    X(struct td_ggml_backend *, backend_cpu_reg, (void)) \
    X(struct td_ggml_backend *, backend_reg_dev_get, (struct td_ggml_backend *, size_t)) \
    X(void *, backend_reg_get_proc_address, (struct td_ggml_backend *, const char *)) \
    X(const char *, backend_buft_name, (struct td_ggml_buffer_type *)) \
    X(size_t, backend_buft_get_alloc_size, \
      (struct td_ggml_buffer_type *, const struct td_ggml_tensor *)) \
    X(struct td_ggml_buffer *, backend_buft_alloc_buffer, (struct td_ggml_buffer_type *, size_t)) \
    X(void *, backend_buffer_get_base, (struct td_ggml_buffer *)) \
    X(int, backend_tensor_alloc, (struct td_ggml_buffer *, struct td_ggml_tensor *, void *)) \
    X(void, backend_tensor_set, (struct td_ggml_tensor *, const void *, size_t, size_t)) \
    X(void, backend_buffer_free, (struct td_ggml_buffer *))

/* What the tap needs. */
#define TD_GGML_TAP_NEEDED(X) \
    TD_GGML_BASIC(X) \
    X(const char *, get_name, (const struct td_ggml_tensor *)) \
    X(const char *, op_desc, (const struct td_ggml_tensor *)) \
    X(struct td_ggml_tensor *, graph_node, (struct td_ggml_graph *, int)) \
    X(int, graph_n_nodes, (struct td_ggml_graph *)) \
    X(const char *, backend_buffer_name, (struct td_ggml_buffer *)) \
    X(bool, backend_buffer_is_host, (struct td_ggml_buffer *)) \
    X(int, backend_buffer_get_usage, (struct td_ggml_buffer *)) \
    X(struct td_ggml_buffer *, backend_cpu_buffer_from_ptr, (void *, size_t)) \
    X(void, backend_buffer_free, (struct td_ggml_buffer *)) \
    X(struct td_ggml_graph *, new_graph_custom, (struct td_ggml_context *, size_t, bool)) \
    X(int, backend_tensor_alloc, (struct td_ggml_buffer *, struct td_ggml_tensor *, void *)) \
    X(void, backend_sched_set_eval_callback, (struct td_ggml_sched *, td_ggml_callback *, void *))

#endif
