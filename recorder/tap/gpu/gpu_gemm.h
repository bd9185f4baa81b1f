/* gpu_gemm.h - a launch, and the GEMM that it computes: its operands, and whether it belongs to the
 * same GEMM as the launch before it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pure functions on descriptions; no state, any thread. What a kernel's parameters mean an adapter
 * knows (kernels/adapters/adapter.h); the result of reading them is a struct td_gpu_work. */
#ifndef TD_RECORDER_TAP_GPU_GPU_GEMM_H
#define TD_RECORDER_TAP_GPU_GPU_GEMM_H

#include "recorder/tap/gpu/gpu_kernels.h"

#pragma GCC visibility push(hidden)

struct tap_gpu_inner;
struct tap_gpu_launch {               /* a launch as the server makes it */
    void *function, *stream, *context;
    unsigned grid[3], block[3], shared_bytes;
    /* Pointers to the parameters; NULL: the parameters lie one after the other at `packed`. */
    void *const *params;
    const void *packed;
    size_t packed_bytes;
    /* Launched by a CUDA graph: device address of the copies that the graph makes of its operands;
     * else 0. */
    uint64_t slot;
    /* The number of that graph's launch, by which it may turn out void (gpu_queue.h); else 0. */
    uint64_t graph_launch;
    bool uncopied;                    /* by a graph that makes no copies: it cannot be recorded */
    bool in_rotation;                 /* that graph copies others just now, and this one in its turn */
    bool noted;                       /* the gate knows its step already: tap_gpu_gate_note_work() */
    /* Where the output lies, if that is not known before the launch; else 0. The work has
     * TAP_GPU_LATER for its address until then. */
    uint64_t output;
    /* After a call of an operator: what it launched; NULL: that is not known. */
    const struct tap_gpu_inner *inner;
    /* Launched by a CUDA graph: it only dequantises W, and this function multiplies; NULL: it does all. */
    const char *library_function;
    /* A sample of its first weight, whose bytes are in a form that nobody else reads; or NULL. */
    const struct td_weight_fingerprint *fingerprint;
};
#define TAP_GPU_LATER 1u

/* ---- operands -------------------------------------------------------------------------------- */
/* The first operand of that use that has an address; NULL: there is none. */
const struct td_gpu_operand *tap_gpu_gemm_operand(const struct td_gpu_work *w, enum td_gpu_use use);
const struct td_gpu_operand *tap_gpu_gemm_output(const struct td_gpu_work *w);
/* After the launch: fill in where the output lies, if that was not known before. */
void tap_gpu_gemm_set_output(struct td_gpu_work *w, const struct tap_gpu_launch *l);
/* Address of the first weight, which tells layers apart; 0: no weights. */
uint64_t tap_gpu_gemm_weights(const struct td_gpu_work *w);
uint64_t tap_gpu_operand_rows(const struct td_gpu_operand *o);
uint64_t tap_gpu_operand_pitch(const struct td_gpu_operand *o); /* bytes from row to row */
/* Address at which the next row would begin. */
uint64_t tap_gpu_operand_end(const struct td_gpu_operand *o);
/* Is it an input or the output, neither a weight nor scratch memory? */
bool tap_gpu_operand_is_copied(const struct td_gpu_operand *o);
/* Is it an output that has an address? A product has one. */
bool tap_gpu_operand_is_output(const struct td_gpu_operand *o);
int tap_gpu_gemm_outputs(const struct td_gpu_work *w);
/* Bytes of all operands that are copied. */
uint64_t tap_gpu_gemm_copied_bytes(const struct td_gpu_work *w);
/* A slot holds all copied operands in a row: the offset of operand i in it. For i = n_op: the
 * slot's size. */
uint64_t tap_gpu_gemm_slot_offset(const struct td_gpu_work *w, int i);

/* ---- what a launch computes ------------------------------------------------------------------ */
/* Read the parameters of a launch of this kernel, whose adapter is not NULL. False: they cannot be
 * read, or there is no output or no weight. */
bool tap_gpu_gemm_read(const struct tap_gpu_launch *l, const struct tap_gpu_kernel *k,
                       struct td_gpu_work *w);
/* C = A W, computed by a library with the W that the launch `dequant` wrote, into *w.
 *   a, c : addresses of A [m, k] and C [m, n], F16, rows lda and ldc elements apart
 * False: W has another size, or A or C is no address. */
bool tap_gpu_gemm_by_library(const struct td_gpu_work *dequant, uint64_t a, uint64_t c, int64_t m,
                             int64_t n, int64_t k, int64_t lda, int64_t ldc, struct td_gpu_work *w);

/* ---- several launches of one GEMM ------------------------------------------------------------ */
/* What the next launch is compared with; zeroed: nothing joins it. */
struct tap_gpu_last_launch {
    const struct td_gpu_adapter *adapter;
    uint64_t stream;                  /* its number */
    uint64_t weights, a_end, c_end;   /* addresses */
    int64_t n, k;
    bool recorded, in_flight_ring;    /* what became of it; neither: it was only counted */
};
struct tap_gpu_last_launch tap_gpu_last_launch_of(uint64_t stream, const struct td_gpu_work *w);
/* Does this launch compute the next rows of the same GEMM? Then it uses the same weights, and its A
 * and C begin where those of the last one ended. */
bool tap_gpu_gemm_joins(const struct tap_gpu_last_launch *last, uint64_t stream,
                        const struct td_gpu_work *w);

#pragma GCC visibility pop
#endif
