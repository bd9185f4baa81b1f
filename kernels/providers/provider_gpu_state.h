/* provider_gpu_state.h - the data that the files of providers cuda and hip work on.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls go down this list:
 *   provider_gpu.c                 the providers: open, run, fetch, time; each kind of op by its table
 *   provider_gpu_gptq.c, _gemm.c   a kind of op: what runs one, and how it is started
 *   provider_gpu_upload.c          the tensors of a gptq_gemm on the GPU, as its kernel reads them
 *   provider_gpu_upload_marlin.c   the same for vLLM's Marlin kernel
 *   provider_gpu_blas.c            the library that multiplies, and the dequantised W
 *   provider_gpu_memory.c          memory for tensors
 *   provider_gpu_stage.c           memory that the GPU copies from and to by itself */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_GPU_STATE_H
#define TD_KERNELS_PROVIDERS_PROVIDER_GPU_STATE_H

#include "kernels/gpu/blas.h"
#include "kernels/gpu/driver.h"
#include "kernels/gpu/geometry.h"
#include "kernels/gpu/gpu_build.h"

#define TD_GPU_SPARES 6            /* mappings of other sizes for a place: of few rows, of some, of many */

/* What a piece of device memory is for. */
enum td_gpu_place {
    TD_GPU_AT_A,
    TD_GPU_AT_QWEIGHT,
    TD_GPU_AT_QZEROS,
    TD_GPU_AT_SCALES,
    TD_GPU_AT_ORDER,               /* g_idx or perm */
    TD_GPU_AT_C,
    TD_GPU_AT_BIAS,
    TD_GPU_AT_C_TMP,               /* Marlin's scratch */
    TD_GPU_AT_LOCKS,               /* Marlin's locks */
    TD_GPU_AT_DEQUANT_W,           /* [k, n] f16, which a kernel writes and a library reads */
    TD_GPU_AT_W,                   /* the weight of a gemm */
    TD_GPU_N_PLACES
};

/* One opened provider: a device and a build. */
struct td_gpu_state {
    const struct td_gpu_driver *driver;
    void *device;
    struct td_gpu_facts facts;
    struct td_gpu_build *build;
    struct td_gpu_blas *blas;      /* the library of products; NULL: not looked for yet, or not there */
    char no_blas[400];             /* why it is not there; "": not looked for yet */
    struct td_gpu_memory sweep;    /* fills the caches; allocated by the first cold timing */
    /* What the last op left, for the next: memory to place its tensors in, and the weights as they were uploaded, in memory that
     * no kernel is given. */
    struct td_gpu_memory spare[TD_GPU_N_PLACES][TD_GPU_SPARES];
    int oldest_spare[TD_GPU_N_PLACES]; /* where the next one goes, if none is free */
    struct { struct td_gpu_memory memory; struct td_hash content; } kept[TD_GPU_N_PLACES];
    struct { void *memory; size_t used; bool tried; } stage; /* provider_gpu_stage.h */
    bool kept_is_lost;             /* it was freed while an op was prepared, which may have counted on it */
    const char *choice;            /* the environment variable that `only` comes from */
    char only[96];                 /* names of kernels must contain this; "": any */
    char words[400], why[640];     /* of struct td_provider: words; the last reason given */
};

/* One prepared op. */
struct td_gpu_prepared {
    const struct td_op_call *op;
    const struct td_gpu_kind *kind;
    struct td_gpu_memory memory[TD_GPU_N_PLACES];
    size_t c_bytes;                /* of C on the device */
    void *back[1 + 2 * TD_GPU_N_PLACES]; /* pieces of the stage: C of the last run; of each place the gap before it, and behind it */
    bool c_dense;                  /* C is dense on the device, though op->out may have gaps */
    struct td_hash content;        /* of all its weights, and of how they lie on the GPU; zero: not known */

    struct td_gpu_linear linear;   /* of kind gemm; addresses once uploaded */

    /* of kind gptq_gemm */
    struct td_gptq_op x;
    bool sorts_rows;               /* rows of W, and columns of A, are uploaded sorted by group */
    const char *identifier;        /* the kernels' name in their source */
    bool lacks_memory;             /* to look for kernels of a name */
    const struct td_gpu_offer *offers;
    const struct td_gpu_adapter *adapter; /* of all kernels of the plan */
    struct td_gpu_plan plan;
    struct {
        const struct td_gpu_function *f;
        struct td_gpu_values v;
        void *params[TD_GPU_PARAMS];
    } launch[TD_GPU_PLAN_MAX];
};

/* What to do about an op that no file of kernels can run. */
#define TD_GPU_NAME_THE_VENV "name the Python of the venv that has the library (--build VENV/bin/python)"

/* What the providers ask of a kind of op. */
struct td_gpu_kind {
    const char *name;
    /* Choose what runs p->op, without touching the GPU: fills p's part of the kind. NULL: it can be
     * run; else why not, static or in s->why. */
    const char *(*choose)(struct td_gpu_state *s, struct td_gpu_prepared *p);
    /* As in provider.h; after choose. */
    const char *(*rounding)(const struct td_gpu_prepared *p);
    /* Bring to the GPU all that a run needs: fills memory, c_bytes and c_dense. After an error the
     * caller still releases p's memory. */
    int (*upload)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
    /* Start one run in the stream. */
    int (*enqueue)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
    /* Poison what is to be poisoned beside C before a run. NULL: nothing. */
    int (*refill)(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err);
    /* After a run, check what guards cannot show. NULL: nothing. */
    int (*check)(struct td_gpu_state *s, const struct td_gpu_prepared *p, struct td_error *err);
    /* As in provider.h. NULL: no. */
    bool (*varies)(const struct td_gpu_prepared *p);
};

#endif
