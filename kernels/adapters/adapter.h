/* adapter.h - what is known of one GPU kernel of the field: what a launch of it means, and with what an op must launch it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The tap reads launches of a live server as ops through adapters (recorder/tap/gpu, for CUDA and HIP);
 * the GPU providers make launches out of recorded ops (kernels/gpu/geometry.h). Because
 * the tap is injected into other people's programs, kernels/adapters allocates nothing and includes
 * nothing of ours but gpu_param.h and gpucode/mangled.h, which are as free of dependencies.
 *
 * An adapter names its kernel's parameters, in their order. Their offsets and sizes come from the driver
 * or the cubin (struct td_gpu_param); if they do not fit the adapter, it does not know this build's
 * version of the kernel. Gaps between parameters hold old bytes of a stack, so parameters are read one
 * by one, never as a block. A pointer that the kernel does not read in the form that an adapter
 * describes is a field "unused": the tap ignores its value, the provider passes NULL. */
#ifndef TD_KERNELS_ADAPTERS_ADAPTER_H
#define TD_KERNELS_ADAPTERS_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu_param.h"

#pragma GCC visibility push(hidden) /* not exported by the tap's library */

#define TD_GPU_PARAMS 32           /* of a kernel, at most */
#define TD_GPU_OPERANDS 12
#define TD_GPU_DIMS 3              /* of an operand; inputs and outputs have at most 2 */
#define TD_GPU_ATTRS 6             /* that a kind has beside those of struct td_gpu_work */
#define TD_GPU_MAX_SIZE (1ll << 28) /* of m, n and k: no product of two of them by 8 overflows */

/* What a parameter is for. */
enum td_gpu_use {
    TD_GPU_SCALAR = 0,
    TD_GPU_IN,                     /* pointer: read; differs from call to call */
    TD_GPU_WEIGHT,                 /* pointer: read; equal from call to call */
    TD_GPU_OUT,                    /* pointer: written; what it held before does not matter */
    TD_GPU_OUT_ZEROED,             /* pointer: added to; the caller sets it to zero first */
    TD_GPU_SCRATCH,                /* pointer: written and read by the kernel alone */
    TD_GPU_ZEROED                  /* pointer: must be zero before, and is zero again after (locks) */
};

struct td_gpu_field {
    const char *name;              /* "a", "qweight", "m": role of the tensor, or name of the attribute */
    uint8_t size;                  /* bytes */
    uint8_t use;                   /* enum td_gpu_use */
};

/* One operand of a launch, as its formula says. */
struct td_gpu_operand {
    const char *role, *dtype;      /* as docs/format.md has them: "qweight", "I32"; static */
    enum td_gpu_use use;
    uint64_t address;              /* on the device; 0: the kernel was given none */
    int ndim;
    int64_t shape[TD_GPU_DIMS];    /* dense, row-major, but for: */
    int64_t row_stride;            /* elements between rows; shape[1] when dense */
    uint64_t bytes;                /* rows without the gaps between them */
};

/* An attribute of the op. */
struct td_gpu_attr { const char *name; int64_t value; };

/* A cache of keys or values on the device, in blocks of slots. A slot is the memory of one row, which lies in pieces
 * of one length. */
struct td_gpu_cache {
    uint64_t address;
    int64_t slots, block;          /* of all blocks; of one. A slot's block is its number / block */
    uint64_t block_bytes, slot_bytes; /* distance of blocks, and of the slots of one block */
    uint64_t piece_bytes, piece_pitch; /* of a row: bytes, and distance, of its pieces */
};
#define TD_GPU_CACHES 2            /* that one operator writes into */

/* What one launch computes. All strings are static. */
struct td_gpu_work {
    const struct td_gpu_adapter *adapter;
    int64_t m, n, k; /* m: rows of this launch. The op may have more: launches with the same
                        weights, whose a and c continue this one's, are joined */
    int bits, group_size, zero_offset, act_order; /* 0 where a kind has no such thing; zero_offset
                                                     1: zero points are stored less one */
    int64_t c_rows;  /* rows of C, where they are not A's; else 0 */
    struct td_gpu_attr attr[TD_GPU_ATTRS]; /* what only this kind has */
    int n_attr;
    bool whole;      /* a library's call, which computes all rows: no other launch is joined */
    bool beside;     /* no product: it may have several outputs, and no weights; k is 0 */
    bool in_step;    /* it does not tell where a step begins */
    const char *scalar; /* role of an input that is a number of the call, not a tensor; NULL: none */
    float scalar_value;
    int list;        /* 0: none; else 1 + the operand that names the slots which it writes: its outputs, in their order,
                        are the rows there, of `cache` */
    struct td_gpu_cache cache[TD_GPU_CACHES];
    struct td_gpu_operand op[TD_GPU_OPERANDS];
    int n_op;
    const char *rounding; /* what the kernel declares that it rounds, as docs/format.md names it
                             ("weight-f16"); NULL: nothing */
};

struct td_gpu_values {             /* the parameters of one launch, by field of the adapter */
    uint64_t value[TD_GPU_PARAMS]; /* zero-extended from the field's size; fields wider than 8 bytes: 0 */
};

/* A template argument that a symbol must have (mangled.h); TD_GPU_NO_ARGUMENT: there must be none. */
struct td_gpu_argument { int at; int64_t value; };

struct td_gpu_adapter {
    const char *family;            /* "gptq_exllama": versions of one kernel, which may replace each other */
    const char *identifier;        /* the kernel's name in the source; see td_gpu_symbol_is */
    const char *kind, *layout;     /* of the op: "gptq_gemm"; of the weights at run time: "exllama" */
    const struct td_gpu_field *fields; int n_fields;
    int bits;
    const struct td_gpu_argument *arguments; int n_arguments; /* that tell this adapter from others of its name; may be none */
    /* Fill *w (zeroed, adapter set) from v. False: values that cannot be (a size of 0, one that does not divide, an overflow). */
    bool (*read)(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w);
};

/* ids of vLLM's scalar types (vllm/scalar_type.py: ScalarType.id), template arguments of Marlin */
#define TD_GPU_VLLM_F16 1125899906910725
#define TD_GPU_VLLM_BF16 1125899906909960
#define TD_GPU_VLLM_U4 1125899906843648
#define TD_GPU_VLLM_U8 1125899906844672
#define TD_GPU_VLLM_U4B8 1125899907892224
#define TD_GPU_VLLM_U8B128 1125899923621888

/* A declaration of what is rounded before the product ("weight-f16", "weight-bf16"; NULL: nothing),
 * with +bias-after: the product is rounded before the bias is added. Static. */
const char *td_gpu_rounding_bias_after(const char *factors);

/* Index of the field of that name, -1: none. */
int td_gpu_field_at(const struct td_gpu_adapter *adapter, const char *name);

/* Read the values from kernelParams (a pointer to each parameter), or, if that is NULL, from a parameter
 * block of block_bytes. Reads exactly the bytes of the parameters. False: the block is too short. */
bool td_gpu_values_read(const struct td_gpu_adapter *adapter, const struct td_gpu_param *params,
                        void *const *kernel_params, const void *block, size_t block_bytes,
                        struct td_gpu_values *v);
/* Call the adapter's read, with the checks that hold for every kernel: sizes are positive, and small
 * enough that nothing overflows. False: the values are not a launch. */
bool td_gpu_work_read(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w);

#pragma GCC visibility pop

#endif
