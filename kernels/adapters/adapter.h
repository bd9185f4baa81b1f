/* adapter.h - what is known of the GPU kernels of the field, a row each: what a launch of one means, and what an op must be launched with.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Two readers share the rows: the tap reads launches of a live server as ops (tap_cuda.c), the provider makes launches out of recorded ops
 * (geometry.h). So that the tap may be injected anywhere, this file and adapter.c include nothing of ours but gpu_param.h, allocate nothing and call nothing.
 *
 * A row says how its kernel's parameters are called, in their order; their offsets and sizes come from the driver or the cubin
 * (struct td_gpu_param) and must fit the row, or the row does not know this build's kernel. Gaps between parameters hold old stack bytes:
 * parameters are read one by one, never as a block. A pointer that a kernel has but does not read in the form that a row describes is a field
 * "unused": the tap ignores what it holds, the provider passes NULL. */
#ifndef TD_KERNELS_ADAPTERS_ADAPTER_H
#define TD_KERNELS_ADAPTERS_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/gpu_param.h"

#pragma GCC visibility push(hidden) /* nobody outside the tap's library may find these there */

#define TD_GPU_PARAMS 32           /* of a kernel, at most */
#define TD_GPU_OPERANDS 10
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
    int64_t shape[2];              /* dense, row-major, but for: */
    int64_t row_stride;            /* elements between rows; shape[1] when dense */
    uint64_t bytes;                /* rows without the gaps between them */
};

/* What one launch computes. All strings are static. */
struct td_gpu_work {
    const struct td_gpu_adapter *adapter;
    int64_t m, n, k;               /* rows of this launch; the op may have more (joined: equal weights, a and c go on where these end) */
    int bits, group_size, zero_offset, act_order; /* 0 where a kind has no such thing; zero_offset 1: zero points are stored less one */
    struct td_gpu_operand op[TD_GPU_OPERANDS];
    int n_op;
    const char *rounding;          /* what the kernel rounds before it multiplies, as docs/format.md names it ("weight-f16"); NULL: nothing */
};

struct td_gpu_values {             /* the parameters of one launch, by field of the row */
    uint64_t value[TD_GPU_PARAMS]; /* zero-extended from the field's size; fields wider than 8 bytes: 0 */
};

/* A template argument that a symbol must have (mangled.h); TD_GPU_NO_ARGUMENT: there must be none. */
struct td_gpu_argument { int at; int64_t value; };

struct td_gpu_adapter {
    const char *family;            /* "gptq_exllama": rows of one family are versions of one kernel, and may replace each other */
    const char *identifier;        /* the kernel's name in the source; see td_gpu_symbol_is */
    const char *kind, *layout;     /* of the op: "gptq_gemm"; of the weights at run time: "exllama" */
    const struct td_gpu_field *fields; int n_fields;
    int bits;
    const struct td_gpu_argument *arguments; int n_arguments;      /* what sets this row apart from others of the same name; may be none */
    /* Fill *w (zeroed, adapter set) from v. False: values that cannot be (a size of 0, one that does not divide, an overflow). */
    bool (*read)(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w);
};

/* ids of vLLM's scalar types (vllm/scalar_type.py: ScalarType.id), template arguments of Marlin */
#define TD_GPU_VLLM_F16 1125899906910725
#define TD_GPU_VLLM_BF16 1125899906909960
#define TD_GPU_VLLM_U4 1125899906843648
#define TD_GPU_VLLM_U4B8 1125899907892224
#define TD_GPU_VLLM_U8B128 1125899923621888

/* Index of the field of that name, -1: none. */
int td_gpu_field_at(const struct td_gpu_adapter *adapter, const char *name);

/* Take the values out of kernelParams (one pointer a parameter), or, where that is NULL, out of a parameter block of block_bytes. False: the block
 * is too short. Reads exactly the bytes of the parameters. */
bool td_gpu_values_read(const struct td_gpu_adapter *adapter, const struct td_gpu_param *params, void *const *kernel_params, const void *block, size_t block_bytes,
                        struct td_gpu_values *v);
/* read() with what can be checked for every row: sizes positive and small enough that nothing overflows. */
bool td_gpu_work_read(const struct td_gpu_adapter *adapter, const struct td_gpu_values *v, struct td_gpu_work *w);

#pragma GCC visibility pop

#endif
