/* provider_gpu.h - what the parts of providers cuda and hip share: provider_gpu.c runs and times; of each kind of op another file says by what
 * (provider_gpu_gptq.c, provider_gpu_gemm.c); provider_gpu_put.c and provider_gpu_put_marlin.c bring tensors to the GPU, provider_gpu_dequant_w.c multiplies a W that was made whole.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_H

#include "kernels/gpu/blas.h"
#include "kernels/gpu/gpu_build.h"
#include "kernels/gpu/driver.h"
#include "kernels/gpu/geometry_marlin.h"

#define TD_GPU_GAP_BYTE 0xa7       /* around guarded tensors; as replayer/child/guard.h */
#define TD_GPU_KEPT 8              /* more than a timed op has starts (TD_OP_TIMING_STARTS) */

enum td_gpu_place { TD_GPU_AT_A, TD_GPU_AT_QWEIGHT, TD_GPU_AT_QZEROS, TD_GPU_AT_SCALES, TD_GPU_AT_ORDER, TD_GPU_AT_C, TD_GPU_AT_BIAS, TD_GPU_AT_C_TMP, TD_GPU_AT_LOCKS, TD_GPU_AT_WHOLE,
                     TD_GPU_AT_W,
                     TD_GPU_N_PLACES };

struct td_gpu_state {
    const struct td_gpu_driver *driver;
    void *device;
    struct td_gpu_facts facts;
    struct td_gpu_build *build;
    struct td_gpu_blas *blas;      /* NULL: not looked for yet, or not there: */
    char no_blas[400];             /* why; "": not looked for yet */
    struct td_gpu_memory sweep;    /* fills the caches; made when first timed cold */
    bool renewed;                  /* and nothing was prepared since */
    struct td_gpu_memory kept[TD_GPU_KEPT][TD_GPU_N_PLACES]; int n_kept; /* of earlier starts of a timed op: taken, so that the next lies elsewhere */
    const char *choice;            /* the variable that `only` comes from */
    char only[96], words[400], why[640];
};

struct td_gpu_prepared {
    const struct td_op_call *op;
    const struct td_gpu_kind *kind;
    struct td_gpu_memory memory[TD_GPU_N_PLACES];
    size_t c_bytes;
    bool c_dense;                  /* on the device; op->out may have gaps */
    bool keep;                     /* prepared for a start of a timed op: its memory stays taken when it is released */

    struct td_gpu_linear linear;   /* of kind gemm; addresses once put */

    /* of kind gptq_gemm */
    struct td_gptq_op x;
    const char *identifier;        /* of the kernels */
    const struct td_gpu_offer *offers;
    const struct td_gpu_adapter *row; /* of all kernels of the plan */
    struct td_gpu_plan plan;
    struct { const struct td_gpu_function *f; struct td_gpu_values v; void *params[TD_GPU_PARAMS]; } launch[TD_GPU_PLAN_MAX];
};

/* What is of an op's kind in the life of a run. */
struct td_gpu_kind {
    const char *name;
    /* By what p->op runs, without the GPU: fills p's part of the kind. NULL: it can; else why not, static or s->why. */
    const char *(*look)(struct td_gpu_state *s, struct td_gpu_prepared *p);
    const char *(*rounding)(const struct td_gpu_prepared *p); /* once looked at; as in provider.h */
    /* All that run needs, on the GPU; fills memory, c_bytes, c_dense. What was made before an error is p's. */
    int (*put)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
    int (*enqueue)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err); /* once, in the stream */
    /* Each may be NULL: nothing, and false. */
    int (*refill)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err); /* poison what is to be poisoned beside C */
    int (*check)(struct td_gpu_state *s, const struct td_gpu_prepared *p, struct td_error *err); /* after a run, what guards do not tell */
    bool (*varies)(const struct td_gpu_prepared *p);
};
extern const struct td_gpu_kind td_gpu_kind_gptq, td_gpu_kind_gemm;

extern const char *const td_gpu_place_names[TD_GPU_N_PLACES];

/* Of gptq_gemm: every tensor in the layout that the chosen kernel reads, and room for C; fills memory, c_bytes, c_dense. What was made before an error is p's. */
int td_gpu_put_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* What td_gpu_put_gptq does of a kernel of layout "marlin": weights, bias, c_tmp, locks. */
int td_gpu_put_marlin(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* What td_gpu_put_gptq does where the plan makes W whole: room for it. */
int td_gpu_put_dequant_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* What nobody writes there shows. In the stream. */
int td_gpu_poison_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* C = A W with it. In the stream. */
int td_gpu_multiply_w(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
/* The library that multiplies is there, s->blas; else false, and s->no_blas says why. */
bool td_gpu_find_blas(struct td_gpu_state *s);
/* Room for a tensor whose neighbourhood shows when somebody writes there; the same with its bytes. align: that of the tensor when recorded. */
int td_gpu_make_room(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at, size_t bytes, size_t align, struct td_error *err);
int td_gpu_put_bytes(struct td_gpu_state *s, struct td_gpu_prepared *p, enum td_gpu_place at, const void *data, size_t bytes, size_t align, struct td_error *err);
/* Let go of p's memory, or keep it taken where p->keep says so. */
void td_gpu_take_back(struct td_gpu_state *s, struct td_gpu_prepared *p);
/* Let go of what was kept, memory and code. */
void td_gpu_drop_kept(struct td_gpu_state *s);
/* Rows of so many bytes, each `stride` bytes from the next, to another distance. */
void td_gpu_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, int64_t rows);

#endif
