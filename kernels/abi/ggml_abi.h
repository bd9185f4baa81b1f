/* ggml_abi.h - the part of ggml's C ABI that this project uses: a tensor, a plan, and the functions found by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: ggml/include/ggml.h and ggml-cpu.h of ggml 0.26 (MIT); struct ggml_tensor is the same since llama.cpp of October 2024.
 * Nothing here is linked: functions are looked up in the build at hand, and ggml_build.c checks with the build's own functions
 * that fields lie where they are declared here before any is used.
 * kernels/abi/tap_ggml_abi.h declares the same for the tap, which may include no header from here: keep the two alike. */
#ifndef TD_KERNELS_ABI_GGML_ABI_H
#define TD_KERNELS_ABI_GGML_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_GGML_DIMS 4
#define TD_GGML_SRC 10
#define TD_GGML_PARAMS 16 /* int32 */

struct td_ggml_tensor {
    int32_t type;                 /* enum ggml_type */
    void *buffer;
    int64_t ne[TD_GGML_DIMS];     /* elements; the innermost dimension first */
    size_t nb[TD_GGML_DIMS];      /* bytes from one to the next; nb[0]: of a block */
    int32_t op;                   /* enum ggml_op: numbers differ between versions, names do not */
    int32_t op_params[TD_GGML_PARAMS];
    int32_t flags;
    struct td_ggml_tensor *src[TD_GGML_SRC];
    struct td_ggml_tensor *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
};

struct td_ggml_init { size_t mem_size; void *mem_buffer; bool no_alloc; };

/* struct ggml_cplan, which grows at its end from version to version: what is returned by value needs the room. */
union td_ggml_plan {
    struct { size_t work_size; uint8_t *work_data; int32_t n_threads; void *threadpool, *abort_callback, *abort_data; } s;
    char room[512];
};

/* struct ggml_type_traits_cpu: how the CPU backend multiplies with weights of a type. */
struct td_ggml_traits_cpu { void *from_float, *vec_dot; int32_t vec_dot_type; int64_t nrows; };

/* X(result, name, arguments). Of the first list a build must have all. */
#define TD_GGML_NEEDED(X) \
    X(void *, ggml_init, (struct td_ggml_init)) \
    X(void, ggml_free, (void *)) \
    X(struct td_ggml_tensor *, ggml_new_tensor_4d, (void *, int32_t, int64_t, int64_t, int64_t, int64_t)) \
    X(struct td_ggml_tensor *, ggml_view_1d, (void *, struct td_ggml_tensor *, int64_t, size_t)) \
    X(struct td_ggml_tensor *, ggml_mul_mat, (void *, struct td_ggml_tensor *, struct td_ggml_tensor *)) \
    X(struct td_ggml_tensor *, ggml_scale, (void *, struct td_ggml_tensor *, float)) \
    X(struct td_ggml_tensor *, ggml_set_name, (struct td_ggml_tensor *, const char *)) \
    X(void *, ggml_get_data, (const struct td_ggml_tensor *)) \
    X(void, ggml_set_input, (struct td_ggml_tensor *)) \
    X(size_t, ggml_nbytes, (const struct td_ggml_tensor *)) \
    X(size_t, ggml_tensor_overhead, (void)) \
    X(const char *, ggml_op_name, (int32_t)) \
    X(const char *, ggml_type_name, (int32_t)) \
    X(size_t, ggml_type_size, (int32_t)) \
    X(int64_t, ggml_blck_size, (int32_t)) \
    X(void *, ggml_new_graph, (void *)) \
    X(void, ggml_build_forward_expand, (void *, struct td_ggml_tensor *)) \
    X(union td_ggml_plan, ggml_graph_plan, (const void *, int, void *)) \
    X(int, ggml_graph_compute, (void *, union td_ggml_plan *))
#define TD_GGML_OPTIONAL(X) \
    X(void, ggml_cpu_init, (void)) \
    X(const struct td_ggml_traits_cpu *, ggml_get_type_traits_cpu, (int32_t)) \
    X(const char *, ggml_version, (void)) \
    X(const char *, ggml_commit, (void))

#endif
