/* gpu_parts.h - the parts of the CUDA front end: what they share.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   cuda_front.c          loaded by CUDA, arming, the callback     cuda_load.c   libcuda and CUPTI, where they are
 *   gpu_kernels.c  which kernel a handle is                 gpu_gate.c   what happens to a launch: steps, sampling, joining, copies
 *   gpu_stage.c    memory of the device and pinned memory   gpu_weight_sets.c   weights: which are there, which are to be sent
 *   gpu_sender.c     the thread that sends what was copied    gpu_gemm.c   what is asked of operands
 *   gpu_queue.c    from the lane to the sender
 *   gpu_record.c     copies of a launch's operands into the ring    gpu_copies.c  several of them in one launch
 *   cuda_graphs.h   CUDA graphs, with --graphs
 *   gpu_weight_chunks.c   weights, piece by piece                  flight_ring.h the flight recorder
 *   cublas_gemm.c     cublasHgemm, behind reconstruct_exllama; cublasGemmEx
 *   cublas_lt.c  cublasLtMatmul                           cublas_linear.c  what it and cublasGemmEx are taken for: layers that are not quantised
 *   gpu_step_finder.c   where a pass begins                      cupti_watch.c   CUPTI's callbacks on and off
 *   tap_hip*.c          the same for AMD GPUs: they fill tap_driver with HIP's functions (hip_parts.h)
 *
 * Who does what:
 *   a thread of the server   in CUPTI's callback around a launch: copies of A (before) and C (after) into a ring on the device, on the launch's
 *                            own stream. Allocates nothing. Who finds the lane taken by another thread of the server leaves, and is counted;
 *                            for the tap's thread, which holds it for some microseconds, it waits: 5 ms at most, if that has lost its core.
 *   at a step's end, or 1 MiB  the same thread hands the ring's new bytes over: a second stream waits for the first and copies them to pinned
 *                            memory in one piece, then writes the batch's number into a word there.
 *   the sender               watches that word; makes no CUDA call. Joins launches into ops, gives them to the core.
 *   the tap's thread         arms and disarms, allocates, hands over what lies there while the server is idle. */
#ifndef TD_RECORDER_TAP_GPU_GPU_PARTS_H
#define TD_RECORDER_TAP_GPU_GPU_PARTS_H

#include "kernels/adapters/adapter.h"
#include "recorder/tap/core/tap.h"
#include "kernels/abi/tap_cuda_abi.h"

#pragma GCC visibility push(hidden)

/* ---- cuda_load.c ----------------------------------------------------------------------------------------------- */

#define TAP_CUDA_MEMBER(name, member, args) int (*member) args;
/* hip_load.c fills it with HIP's functions where there is no CUDA. */
struct tap_cuda_driver {
    TAP_CUDA_FUNCTIONS(TAP_CUDA_MEMBER)
    TAP_CUDA_OPTIONAL(TAP_CUDA_MEMBER)
    int (*named_params)(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS]); /* not NULL: of a kernel by its name, in place of the ParamInfo functions; their number */
};
struct tap_cuda_cupti { TAP_CUPTI_FUNCTIONS(TAP_CUDA_MEMBER) TAP_CUPTI_OPTIONAL(TAP_CUDA_MEMBER) };
extern struct tap_cuda_driver tap_driver;
extern struct tap_cuda_cupti tap_cupti;
/* Find all functions; once. NULL: done; else why not. From the tap's thread. */
const char *tap_cuda_load(void);
/* The library of the process whose kernels an adapter knows best, else the driver: into library[n]. */
void tap_cuda_library(char *library, size_t n);

/* ---- gpu_kernels.c -------------------------------------------------------------------------------------------- */

struct tap_cuda_kernel {              /* what a launched handle is; found out at its first launch of an arm */
    _Atomic(void *) handle;           /* NULL: free */
    _Atomic bool ready;
    _Atomic uint64_t n, covered;      /* launches; of them, those within a product that is seen as a whole (cublasHgemm) */
    uint64_t sent, sent_covered;      /* told the recorder; the sender's */
    const struct td_gpu_adapter *row; /* NULL: unknown */
    struct td_gpu_param params[TD_GPU_PARAMS];
    int n_params;
    char symbol[TAP_SYMBOL];
};
/* Fill in all but the handle; ready is set last. */
void tap_cuda_kernel_describe(struct tap_cuda_kernel *k, void *handle, const char *symbol);
/* NULL: the table is full. */
struct tap_cuda_kernel *tap_cuda_kernel_of(void *handle, const char *symbol);
/* Forget all. False: no memory. While nobody is in a callback. */
bool tap_cuda_kernels_clear(void);
/* Kernel i that was launched, NULL after the last place; *used false: the place is free. */
struct tap_cuda_kernel *tap_cuda_kernel_at(unsigned i, bool *used);

/* ---- gpu_stage.c ---------------------------------------------------------------------------------------------- */

#define TAP_CUDA_STAGE_BYTES (64u << 20)
#define TAP_CUDA_FULL UINT64_MAX

/* Allocate, in that context, what the process keeps for its life: nothing of it may be freed while the server computes. NULL: done or there
 * already; else why not. From the tap's thread. */
const char *tap_cuda_stage_open(void *context);
/* It is open: if the recorder takes more in one piece than those before, a larger ring and mirror take the place of the old ones, where there is memory; these
 * stay allocated (all together are less than twice the largest). While it is quiet, and nobody takes. */
void tap_cuda_stage_grow(void);
/* It is smaller than this arm's recorder asked for: a sentence. NULL: it is not, nobody asked, or it is not open yet. */
const char *tap_cuda_stage_short(void);
/* May be used for launches of this context, which is there? Not when it was reset since: then all that is ours is gone. */
bool tap_cuda_stage_is(const void *context);
bool tap_cuda_stage_gone(void);
uint64_t tap_cuda_stage_bytes(void);  /* of the ring */
void *tap_cuda_stage_context(void);
/* Is everything that was handed over there? */
bool tap_cuda_stage_quiet(void);
void tap_cuda_stage_forget(void);     /* in the child of a fork; when it is gone, and the sender rests */

/* Is it captured, or may it not be asked? Its launches are left alone then. */
bool tap_cuda_stream_capturing(void *stream);
/* A handle is no name: a destroyed stream's may be another's, and of each thread's own default stream there is but one. 0: not known. */
uint64_t tap_cuda_stream_number(void *stream);
/* The following with the lane held. */
/* n bytes of the ring in one piece, until the sender frees them: their offset, or TAP_CUDA_FULL. */
uint64_t tap_cuda_stage_take(uint64_t n);
uint64_t tap_cuda_stage_room(void);
uint64_t tap_cuda_stage_end(void);    /* what the next entry frees, when it is done with */
/* Copy `rows` rows of row_bytes that lie `pitch` apart, densely. False: the driver refused. */
bool tap_cuda_stage_copy(uint64_t at, uint64_t from, uint64_t rows, uint64_t row_bytes, uint64_t pitch, void *stream);
uint64_t tap_cuda_stage_address(uint64_t at); /* on the device */
/* The same to any address of the device. */
bool tap_cuda_copy_rows(uint64_t to, uint64_t from, uint64_t rows, uint64_t row_bytes, uint64_t pitch, void *stream);
void *tap_cuda_stage_side(void);      /* the stream of our own: behind all that was handed over */
/* What was copied until now on `stream` comes with the next batch. */
bool tap_cuda_stage_mark(void *stream);
/* Hand over what was marked. False: the driver refused, and nothing is taken any more. */
bool tap_cuda_stage_hand_over(void);
uint64_t tap_cuda_stage_waiting(void); /* bytes not handed over */
uint32_t tap_cuda_stage_batch(void);  /* number of the batch that is being filled */

/* The sender's. */
const uint8_t *tap_cuda_stage_at(uint64_t at);
bool tap_cuda_stage_done(uint32_t batch);
bool tap_cuda_stage_broken(void);
void tap_cuda_stage_free(uint64_t end);

/* ---- gpu_copies.c --------------------------------------------------------------------------------------------- */

#define TAP_CUDA_PIECES 16u
struct tap_cuda_piece { uint64_t to, from, bytes, pitch; uint32_t row_bytes, unit; }; /* the kernel's: bytes of all rows, densely to `to`; unit: 16, 4 or 1 bytes */
struct tap_cuda_copies {              /* within the device's memory, on one stream, that go together; zeroed: none */
    struct tap_cuda_piece piece[TAP_CUDA_PIECES];
    unsigned n, blocks;
};
/* One more, as tap_cuda_copy_rows(); it may be made at once. False: the driver refused. */
bool tap_cuda_copies_add(struct tap_cuda_copies *c, uint64_t to, uint64_t from, uint64_t rows, uint64_t row_bytes, uint64_t pitch, void *stream);
bool tap_cuda_copies_go(struct tap_cuda_copies *c, void *stream);
/* Compile the kernel and try it in the first TAP_CUDA_TRIAL_BYTES of the ring, which are nobody else's then. In the context, from the tap's thread. */
#define TAP_CUDA_TRIAL_BYTES 1024u
struct tap_cuda_trial { uint64_t ring; const uint8_t *host; const volatile uint32_t *word; uint64_t word_address; void *side; }; /* host: the ring's mirror; word: 0 */
void tap_cuda_gather_open(const struct tap_cuda_trial *t);
void tap_cuda_gather_forget(void);

/* ---- gpu_weight_sets.c ----------------------------------------------------------------------------------------------- */

struct tap_cuda_set {                 /* weights of a layer, by address and size */
    uint64_t address[TAP_MAX_WEIGHTS], bytes[TAP_MAX_WEIGHTS]; /* in the order of the row's operands */
    uint64_t total, taken;            /* bytes of all; of them, on their way */
    uint32_t number;                  /* from 1; 0: free */
    uint32_t slot;                    /* its place */
};
/* The set of a launch; NULL: there are too many, or more tensors than a set holds. With the lane held. */
struct tap_cuda_set *tap_cuda_set_of(const struct td_gpu_work *w);
void tap_cuda_sets_clear(void);
/* There is something else in memory now: the next launch gets a set of another number, to be sent anew. From the sender. */
void tap_cuda_set_stale(const struct tap_cuda_set *s);
/* May it go over in this step? One is completed before the next is begun, so that the recorder holds few that are not whole. One whose layer has not run for
 * a while is given up: should it run again, it goes over anew, under another number. went: some of it did. With the lane held. */
bool tap_cuda_set_may_go(struct tap_cuda_set *s, uint64_t step);
void tap_cuda_set_went(const struct tap_cuda_set *s);
/* The recorder wants no ops with these weights. From the sender; is it so? */
void tap_cuda_set_refuse(const struct tap_cuda_set *s);
bool tap_cuda_set_is_refused(const struct tap_cuda_set *s);
#define TAP_CUDA_SETS 4096u
#define TAP_CUDA_NUMBERS (2 * TAP_CUDA_SETS) /* sets in an arm, with those that replace others */
/* By some bytes in the middle of each of its tensors a set is known again at each op: *n of tensor t (0: there is none) from the offset that is returned
 * on, at most TAP_CUDA_SAMPLE_EACH, within one piece. Together they lie in TAP_CUDA_SAMPLE bytes, those of tensor t at t * TAP_CUDA_SAMPLE_EACH. */
#define TAP_CUDA_SAMPLE_EACH 32u
#define TAP_CUDA_SAMPLE (TAP_MAX_WEIGHTS * TAP_CUDA_SAMPLE_EACH)
uint64_t tap_cuda_set_sample(const struct tap_cuda_set *s, int t, uint64_t *n);

/* ---- gpu_gemm.c ----------------------------------------------------------------------------------------------- */

struct tap_cuda_launch;
/* The first operand for this use that has an address; the one that is written; NULL: there is none. */
const struct td_gpu_operand *tap_cuda_operand(const struct td_gpu_work *w, enum td_gpu_use use);
const struct td_gpu_operand *tap_cuda_output(const struct td_gpu_work *w);
uint64_t tap_cuda_weights_of(const struct td_gpu_work *w);  /* the address that tells layers apart; 0: no weights */
uint64_t tap_cuda_rows_of(const struct td_gpu_operand *o);
uint64_t tap_cuda_pitch_of(const struct td_gpu_operand *o); /* bytes from row to row */
uint64_t tap_cuda_end_of(const struct td_gpu_operand *o);   /* where the next row would begin */
bool tap_cuda_is_copied(const struct td_gpu_operand *o);     /* an input or the output */
uint64_t tap_cuda_copied_bytes(const struct td_gpu_work *w); /* of all that are */
/* Where in a slot that holds all that are copied, in a row, operand i lies; of n_op the slot's size. */
uint64_t tap_cuda_slot_of(const struct td_gpu_work *w, int i);
/* What a launch of this kernel computes, of which there is an output and weights. False: it cannot be read. */
bool tap_cuda_work_of(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k, struct td_gpu_work *w);
/* The product C = A W with the W that `whole` makes, into *w: A [m, k], C [m, n], F16, rows lda and ldc elements apart. False: W is of another size. */
bool tap_cuda_product(const struct td_gpu_work *whole, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldc, struct td_gpu_work *w);

struct tap_cuda_last {                /* a launch, for joining the next one to it */
    const struct td_gpu_adapter *row;
    uint64_t stream;                  /* its number */
    uint64_t weights, a_end, c_end;
    int64_t n, k;
    bool taken, flown;                /* flown: it went into the flight recorder */
};
struct tap_cuda_last tap_cuda_last_of(uint64_t stream, const struct td_gpu_work *w);
/* The same weights again, and A and C go on where those of the launch before ended: the rest of one product's rows. */
bool tap_cuda_joins(const struct tap_cuda_last *p, uint64_t stream, const struct td_gpu_work *w);

/* ---- gpu_step_finder.c --------------------------------------------------------------------------------------------- */

struct tap_cuda_rounds {              /* zeroed: nothing is known */
    uint64_t first;                   /* weights that begin a pass; 0: none seen yet */
    uint64_t others_before;           /* other launches until the launch before */
    uint64_t launches;                /* since the pass began */
    uint64_t gap, gap_at;             /* the longest gap since then, and the weights behind it */
    unsigned again;                   /* how often those have come by since */
};
enum tap_cuda_round { TAP_CUDA_WITHIN, TAP_CUDA_BEGINS, TAP_CUDA_LOST };
/* A product with these weights; others: launches of other kernels so far; waiting: no pass has begun yet in this arm.
 * LOST: passes begin elsewhere; what follows until the next BEGINS belongs to none. */
enum tap_cuda_round tap_cuda_round_note(struct tap_cuda_rounds *r, uint64_t weights, uint64_t others, bool waiting);
/* For a new arm: only `first` is still known. */
void tap_cuda_round_reset(struct tap_cuda_rounds *r, uint64_t others);

/* ---- gpu_gate.c ----------------------------------------------------------------------------------------------- */

struct tap_cuda_launch {              /* a launch as the callback sees it */
    void *function, *stream, *context;
    unsigned grid[3], block[3], shared_bytes;
    void *const *params;              /* or NULL: then */
    const void *packed;
    size_t packed_bytes;
    uint64_t slot;                    /* by a graph: where copies of its operands lie on the device; else 0 */
};

#define TAP_CUDA_BATCH (1u << 20)     /* handed over when so much has gathered, and at each step */
enum tap_cuda_what { TAP_CUDA_STEP, TAP_CUDA_PIECE, TAP_CUDA_LAUNCH, TAP_CUDA_BOUND,
                     TAP_CUDA_CHECK, TAP_CUDA_KEEP, TAP_CUDA_KEPT }; /* of the flight recorder: columns of an output; its ring begins to come, has come */
struct tap_cuda_entry {               /* what the lane tells the sender */
    enum tap_cuda_what what;
    uint32_t batch;                   /* there when this batch is */
    uint64_t end;                     /* of the ring: free up to here, when this is done with */
    uint64_t step;                    /* STEP; LAUNCH that was kept */
    bool recorded;                    /* STEP: its record was sent before */
    enum tap_flight flight;           /* LAUNCH, KEEP, KEPT: why it was kept; NOT: it was taken */
    struct tap_cuda_set set;          /* PIECE, LAUNCH, CHECK */
    uint64_t offset, at, len;         /* PIECE: of the set's stream of tensors; in the ring; CHECK: at, len; KEEP: len: ops in the ring */
    bool joins;                       /* LAUNCH: goes on where the last one ended */
    enum tap_count cut;               /* not TAP_OPS_SENT: the op before this lacks rows, for that reason: it is none */
    const char *product;              /* LAUNCH: it only makes W whole; this function, which is called next, multiplies. NULL: it does all */
    int64_t t_ns;
    const struct tap_cuda_kernel *kernel;
    struct td_gpu_work work;
    uint64_t op_at[TD_GPU_OPERANDS];  /* of inputs and the output, in the ring */
    uint64_t sample_at;               /* of the set's sample; of a launch that joins: none */
    struct tap_cuda_launch launch;    /* only its numbers */
};

/* Before and after a launch of a kernel that a row knows. enter returns a token for leave; 0: not taken. */
uint64_t tap_cuda_gate_enter(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k);
void tap_cuda_gate_leave(uint64_t token, const struct tap_cuda_launch *l, bool ok);
/* Around a product C = A W by `function` (static): W lies at w, made by the launch before, on the same stream. A [m, k], C [m, n], F16, rows lda and ldc
 * elements apart. False: it is not that W. *token: for leave; 0: not taken. */
bool tap_cuda_gate_enter_product(const char *function, void *stream, uint64_t w, uint64_t a, uint64_t c, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldc, uint64_t *token);
void tap_cuda_gate_leave_product(uint64_t token, bool ok);
/* A launch that a graph has made on l->stream: enter and leave in one. */
void tap_cuda_gate_replay(const struct tap_cuda_launch *l, const struct tap_cuda_kernel *k, const struct td_gpu_work *w);
void tap_cuda_gate_other(void);       /* a launch that no row knows, or one of a graph */
/* From the tap's thread. */
bool tap_cuda_gate_open(void);        /* false: no memory */
void tap_cuda_gate_tick(bool now);    /* hand over what has been lying there; now: what lies there */
void tap_cuda_gate_abandon(void);     /* nobody watches any more: a launch between enter and leave will not come back */
/* Between two windows of a sample: take nothing from now on, and nothing need be watched for so many ns. 0: the next pass must be. */
int64_t tap_cuda_gate_rest(void);
bool tap_cuda_gate_is_at_work(void);  /* a launch that a row reads came a moment ago */
bool tap_cuda_gate_wake(void);        /* take again. False: a thread of the server is still in there; try again later */
void tap_cuda_gate_close(void);       /* take no more, hand over the rest */
void tap_cuda_gate_forget(void);      /* in the child of a fork */
/* With the lane held: e, the queue's next place, goes to the sender, there when this batch is. */
void tap_cuda_gate_put(struct tap_cuda_entry *e, uint32_t batch);
void *tap_cuda_gate_context(void);    /* of a launch that could not be taken because the stage is not there */

/* ---- cublas_linear.c --------------------------------------------------------------------------------------------- */

/* c [m, n] = a [m, k] by w [n, k], dense, + bias [n] (0: none): addresses; all of one type, F16 or BF16, rows of a and c lda and ldc elements apart. */
struct tap_cuda_linear { uint64_t a, w, bias, c; int32_t m, n, k, lda, ldc; };
enum tap_cuda_linear_call { TAP_CUDA_GEMM_EX, TAP_CUDA_LT_MATMUL };
bool tap_cuda_linear_wanted(void);    /* TD_TAP_CUBLAS=1 */
/* Before such a call, on l->stream, between come_in and go_out; fills l's context. The token for tap_cuda_gate_leave; 0: not taken. */
uint64_t tap_cuda_linear_enter(const struct tap_cuda_linear *p, enum tap_cuda_linear_call call, bool bf16, struct tap_cuda_launch *l);
/* After the call, which was taken or not: the cover that was there before it, and the end of what was taken. errno stays. */
void tap_cuda_linear_leave(uint64_t token, struct tap_cuda_launch *l, bool covered, bool done);

/* ---- gpu_record.c ----------------------------------------------------------------------------------------------- */

/* What the launch reads, and of a graph's launch all of it. False: no room, or the driver refused. */
bool tap_cuda_copy_inputs(struct tap_cuda_entry *e, void *stream);
bool tap_cuda_copy_output(const struct tap_cuda_entry *e, void *stream);
/* ---- gpu_weight_chunks.c --------------------------------------------------------------------------------------------- */

/* With the lane held: what is missing of the set, as far as there is room. True: all of it is on its way. */
bool tap_cuda_pieces_send(struct tap_cuda_set *s, void *stream);
bool tap_cuda_piece_fits(void);       /* is there room for the next piece, whatever it is? */

/* ---- gpu_queue.c ---------------------------------------------------------------------------------------------- */

bool tap_cuda_queue_clear(void);      /* between arms; false: no memory */
/* With the lane held: the place of the next entry (ahead 1: of the one after it), NULL: full; and, once it is filled in, hand it on. */
struct tap_cuda_entry *tap_cuda_queue_place(uint64_t ahead);
void tap_cuda_queue_put(struct tap_cuda_entry *e, uint32_t batch);
/* What was taken from graphs until now and is not there yet may be another graph's. From any thread. */
void tap_cuda_queue_void(void);
bool tap_cuda_queue_is_void(const struct tap_cuda_entry *e); /* the sender's, of the next entry, once its batch is there */
/* The sender's: the next entry, NULL: none. It stays until tap_cuda_queue_next(). */
const struct tap_cuda_entry *tap_cuda_queue_entry(void);
bool tap_cuda_queue_empty(void);      /* any thread's */
void tap_cuda_queue_next(void);

/* ---- cuda_graphs.c --------------------------------------------------------------------------------------------- */

struct tap_cuda_slot;
uint64_t tap_cuda_graphs_wanted(void); /* bytes of the arena that the server was started with; 0: graphs are not watched */
/* Once, before the tap subscribes. NULL: from now on tap_cuda_graphs_on(); else why not. */
const char *tap_cuda_graphs_open(uint64_t arena_bytes);
void tap_cuda_graphs_close(void);     /* it could not subscribe */
bool tap_cuda_graphs_on(void);
uint32_t tap_cuda_graphs_watched(unsigned i); /* callbacks that it needs beside those of launches; 0 after the last */
void tap_cuda_graphs_arm(void);       /* a new arm; nobody is in here */
void tap_cuda_graphs_forget(void);    /* in the child of a fork */
/* In callbacks, armed or not. Before and after a call that makes, changes or destroys graphs: true. */
bool tap_cuda_graphs_call(uint32_t cbid, const struct tap_cupti_data *d);
/* Before a launch, which may be captured: true. *slot: for leave; NULL: not needed. */
bool tap_cuda_graphs_enter(const struct tap_cuda_launch *l, const char *symbol, struct tap_cuda_slot **slot);
void tap_cuda_graphs_leave(const struct tap_cuda_slot *slot, const struct tap_cuda_launch *l, bool ok);
/* Before a graph is launched; and, while armed, after it: counts it and takes what it computed. */
void tap_cuda_graphs_launch(const void *exec, void *stream);
void tap_cuda_graphs_launched(const void *exec, void *stream, void *context);

/* ---- cuda_front.c ---------------------------------------------------------------------------------------------------- */

/* A thread of the server comes in, and goes out again. False: it must not, the tap is not watching. While somebody is in here nothing is armed. */
bool tap_cuda_come_in(void);
void tap_cuda_go_out(void);
/* From now on this thread's launches are parts of a product that is seen as a whole; no callback looks at them. Returns what it was before. */
bool tap_cuda_cover(bool on);
void tap_cuda_on_call(void *user, int domain, uint32_t cbid, const void *data); /* CUPTI's callback */
bool tap_cuda_own(bool on);           /* the same: this thread's launches are the tap's own, and are not counted */
/* A kernel of that name is launched: counted, and taken into the lane if it is known. The token for tap_cuda_gate_leave; 0: not taken. Between come_in and
 * go_out, as leaving is. */
uint64_t tap_cuda_launched(const struct tap_cuda_launch *l, const char *symbol);
/* What a front end does when it is armed: why not NULL is returned as it is; else NULL, and from now on threads may come in, or why not. guess: a context
 * in which launches will come, or NULL. Then while armed, when it ends, and in the child of a fork. From the tap's thread. */
const char *tap_cuda_begin(const char *why, void *(*guess)(void));
void tap_cuda_tick(void);
void tap_cuda_end(int wait_ms);
void tap_cuda_forked(void);

/* ---- cupti_watch.c: the tap's thread's -------------------------------------------------------------------------- */

const char *tap_cuda_watch(void);     /* subscribe, unless it is so already. NULL: done; else why not */
void tap_cuda_unwatch(void);
bool tap_cuda_watched(void);
void tap_cuda_watch_forget(void);     /* in the child of a fork */

/* ---- gpu_sender.c ----------------------------------------------------------------------------------------------- */

bool tap_cuda_send_start(void);       /* the sender runs, for this arm */
bool tap_cuda_send_busy(void);        /* it still has the last arm's work */
void tap_cuda_send_stop(int wait_ms); /* send what there is, for at most so long; the rest is dropped */
void tap_cuda_send_forget(void);

#pragma GCC visibility pop
#endif
