/* tap.h - what a front end of libtapedeck-tap.so uses. A front end is one file: it stands before functions of the server (or is called back by
 * them) and describes each call; the core decides what is taken, copies it, and talks to the recorder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library runs inside somebody else's server. It never prints, exits, aborts or waits for the recorder, allocates nothing on
 * the server's threads once it is armed, and fails open: whatever is wrong, the real function is called.
 *
 * States: cold (no thread) -> asleep -> armed -> asleep. Only the tap's thread moves between the last two. */
#ifndef TD_RECORDER_TAP_CORE_TAP_H
#define TD_RECORDER_TAP_CORE_TAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/abi/td_gptq.h"
#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

#define TAP_EXPORT __attribute__((visibility("default")))
#define TAP_LIKELY(x) __builtin_expect(!!(x), 1)

/* ---- a call -------------------------------------------------------------------------------------------------------- */

/* A tensor of a call. The strings are static; data is borrowed until the call ends. (A record, struct tap_tensor, holds copies.) */
struct tap_operand {
    const char *role, *dtype;      /* as in docs/format.md: "a", "F16"; "w", "Q4_1" */
    int32_t ndim;                  /* <= TAP_DIMS; outermost dimension first */
    int64_t shape[TAP_DIMS], strides[TAP_DIMS]; /* what the fixture will say, of the bytes as they are copied: in elements; blocks of a block format */
    const void *data;              /* its first byte; NULL: its bytes cannot be read (opaque), it is described only */
    uint64_t address;              /* where the server has it, when data is a copy; 0: at data */
    uint64_t bytes;                /* what is copied in all: rows * row_bytes, or one piece when row_bytes is 0; 0 when opaque */
    uint64_t row_bytes, pitch;     /* rows of row_bytes that lie `pitch` bytes apart are put densely one after the other */
};

/* struct td_op_launch with a borrowed symbol, which is copied once, into the record. */
struct tap_call_launch { int64_t rows[2]; uint32_t grid[3], block[3], shared_bytes, flags; const char *symbol; }; /* flags: enum td_launch_flags; symbol NULL: the call's */

struct tap_call {                  /* what a front end knows of one call of a kernel; all of it is borrowed by tap_take_begin only */
    const char *kind, *symbol, *layout, *rounding; /* static: "gptq_gemm", "td_gptq_gemm", "checkpoint", "none" */
    const char *name;              /* what the format calls this layer or node ("blk.3.ffn_down.weight"), or NULL */
    const struct tap_fingerprint *print; /* of opaque weights (tap_proto.h), or NULL */
    struct td_attr_view attrs[TAP_MAX_ATTRS]; int n_attrs;
    struct tap_operand w[TAP_MAX_WEIGHTS]; int n_w;   /* equal from call to call: sent once an arm and kept by the recorder */
    uint32_t weights;              /* not 0: w[] went over already, by tap_weights_put; of their data only the alignment is looked at */
    const struct tap_call_launch *launches; int n_launches; /* <= TAP_MAX_LAUNCHES; NULL: the call is not made of launches */
    struct tap_operand in[TAP_MAX_INPUTS]; int n_in;
    struct tap_operand out;        /* read after the call */
    int64_t rows;                  /* M: the size class, for a thread that has no steps */
    enum tap_flight flight;        /* why the flight recorder kept it */
};

struct tap_ring_slot;
struct tap_op;

/* A call that is being taken: from tap_take_begin to tap_take_end. */
struct tap_taking {
    struct tap_operand out;        /* a copy; until the end data, row_bytes and pitch may be set (a result that the call itself allocates) */
    int64_t t0_ns;                 /* tap_now() at the end of tap_take_begin */
    struct tap_ring_slot *seat;         /* the rest is the core's */
    struct tap_op *rec;
    struct tap_tensor *out_tensor;
    uint64_t size, out_at, out_bytes, bytes;
};

/* Use, on one thread:
 *     if (tap_armed() && tap_take_begin(&t, &call)) { run; tap_take_end(&t, ok, tap_now() - t.t0_ns); } else run;
 * begin decides, sends the weights if need be, copies the inputs. False: not taken, and counted; there is nothing to end. After true the same
 * thread must call end, whatever happens (the memory stays until then); the two may lie in different functions, if t outlives both.
 * ok false: counted "failed", nothing is sent. A call inside a taken call is not taken. Nothing here waits, allocates or changes errno. */
bool tap_take_begin(struct tap_taking *t, const struct tap_call *call);
void tap_take_end(struct tap_taking *t, bool ok, int64_t duration_ns);   /* duration -1: not measured */

extern _Atomic uint32_t tap_generation; /* 0: not armed */
static inline bool tap_armed(void) { return atomic_load_explicit(&tap_generation, memory_order_acquire) != 0; }
bool tap_take_all_kinds(void);     /* armed with --all-ops: every kind of op, not GEMMs only */

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* A forward pass starts on this thread. Ops until the next such call belong to it: all of them are taken, or none. n_spans 0: it is not
 * known whose rows these are. */
void tap_take_step(const struct td_step_args *args);
/* The same where only the number of rows is known: the size class that sampling sees. step: counts up. */
void tap_take_pass(uint64_t step, int64_t rows);
/* This thread uses steps: calls before its first step are none of its own (counted "partial"). Cheap, for calls while asleep; the two above
 * do it too. */
void tap_take_note_step(void);
/* Would a call of the step at hand be taken? Cheap; lets a front end skip the work of describing. A call that is then not even begun is
 * counted by tap_take_skip. On a thread without steps: true while armed. */
bool tap_take_wanted(void);
/* n calls, of `bytes` of inputs and outputs in all (0: not known), that were not begun because tap_take_wanted() said no. */
void tap_take_skip(uint64_t n, uint64_t bytes);
/* A call of a step that is wanted, whose inputs or output lie where they cannot be read (another device's memory). */
void tap_take_unreadable(void);

/* ---- calls that one thread sees and another one sends ---------------------------------------------------------------- */

/* A device works later than its launches: what to take is decided when a call is seen, what was copied is sent when it is there. The thread that
 * sends is the front end's own, and uses nothing but these and tap_take_begin and tap_take_end. */
#define TAP_CLASSES 128u           /* of sizes, see tap_steps.c */
struct tap_sampler {               /* of one stream of steps; zeroed at each arm */
    uint8_t classes[TAP_CLASSES];
    uint64_t steps;
    int64_t fresh_ns;              /* the last of a size that is taken for that */
    bool first;                    /* the step at hand is one of those */
};
enum tap_doing { TAP_WAIT, TAP_TAKE, TAP_SKIP_SAMPLING, TAP_SKIP_BUDGET, TAP_SKIP_RING, TAP_SKIP_FLIGHT };
/* A pass of `rows` rows begins: what happens to it. *weights: it may send weights. */
enum tap_doing tap_sampler_decide(struct tap_sampler *p, int64_t rows, bool *weights);
/* So many passes from now on are in no window of the sample; 0: the next one may be. For as long as sizes that are new still come none may be
 * left unseen: 0 too. */
uint64_t tap_sampler_free(const struct tap_sampler *p, int64_t now);
extern int64_t tap_fresh_ns;       /* how long that is; tests shorten it */
bool tap_is_sampling(void);        /* of all passes, in this arm */
void tap_sampler_paid(const struct tap_sampler *p, int64_t ns); /* so long a thread of the server was held, to take the step at hand */
void tap_sampler_unseen(struct tap_sampler *p, uint64_t passes); /* so many went by */
/* Count n calls (or steps) that are not taken for that reason. From any thread; n 0: bytes that belong to one that was counted. */
void tap_count_untaken(enum tap_doing why, bool steps, uint64_t n, uint64_t bytes);
void tap_count(enum tap_count what, uint64_t n, uint64_t bytes);
uint64_t tap_largest(void);        /* bytes that a record can have at all; 0: not attached */
void tap_pay_weights(uint64_t bytes); /* that many will be sent */

/* Of the thread that sends. What does not fit into the ring is not sent: ask for room before. */
uint64_t tap_send_room(void);      /* bytes; 0 also when asleep, or without a ring */
uint64_t tap_take_size(const struct tap_call *call); /* bytes of its record; 0: it makes no sense */
bool tap_send_pass(uint64_t step); /* this pass is taken; the calls that follow belong to it */
void tap_send_again(uint64_t step); /* the same, where it was said before */
bool tap_send_kept(enum tap_flight why, int64_t t_ns, uint64_t ring_bytes); /* the flight recorder's ring comes now */
uint32_t tap_weights_new(void);    /* number for another set of weights; 0: none to be had */
bool tap_weights_unwanted(uint32_t id); /* the recorder wants no ops with these */
/* Bytes [offset, offset + len) of the stream of all tensors of the set, in order. bytes: of each, as in every piece; len <= TAP_MAX_CHUNK. */
bool tap_weights_put(uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS], uint64_t offset, const void *data, uint32_t len);
bool tap_send_kernel(const char *symbol, bool known, uint64_t n);

/* ---- the real functions -------------------------------------------------------------------------------------------- */

#define TAP_CALLERS 64u            /* call sites remembered; more of them are looked up each time */

/* static struct tap_symbol s = {.name = "..."}; one per function. */
struct tap_symbol {
    const char *name;
    _Atomic(void *) shared;        /* found by RTLD_NEXT */
    _Atomic bool tried;            /* RTLD_NEXT was asked */
    struct { _Atomic(const void *) caller; _Atomic(void *) fn; } local[TAP_CALLERS];
};
/* The function that `caller` (__builtin_return_address(0)) would reach without the tap; NULL: none. Cheap after the first time. */
void *tap_real_find(struct tap_symbol *s, const void *caller);
/* The one that all callers share, or NULL: it depends on the caller. */
void *tap_real_shared(struct tap_symbol *s);
/* Handle of the library that defines `fn` (RTLD_NOLOAD; for dlsym, and dlclose after it), its path in path[n] unless path is NULL. NULL: not found. */
void *tap_real_library(const void *fn, char *path, size_t n);

/* ---- the front end ------------------------------------------------------------------------------------------------- */

/* A call was seen: starts the tap's thread when cold. Cheap, keeps errno; belongs into the path that is taken while awake. */
void tap_take_note(void);
int64_t tap_now(void);             /* CLOCK_MONOTONIC, ns */

/* A line in tap_serve.c's table. */
struct tap_front {
    const char *name;              /* "td", "ggml", "vllm" */
    /* true: from now on every call must come the long way, by tap_take_note() and tap_armed() (cold or armed); only stores, for it is called
     * in the child of a fork too. false: asleep: the fast path may be published. From the tap's thread; may be NULL. */
    void (*awake)(bool awake);
    /* True: this front end has seen calls. Then library[n]: where the real functions live, build[n]: what that build says of itself ("": not
     * known). From the tap's thread. */
    bool (*describe)(char *library, char *build, size_t n);
    /* Armed just now; from the tap's thread, may be NULL. Returns NULL, or a sentence for the user: why calls will not be seen. Static. */
    const char *(*start)(void);
    /* About to go to sleep: see no more calls, and send what was copied, for at most wait_ms. From the tap's thread; may be NULL. */
    void (*stop)(int wait_ms);
    void (*tick)(void);            /* while armed, some times a second. From the tap's thread; may be NULL */
    int (*tick_ms)(void);          /* so soon it wants the next one; may be NULL */
    /* What went wrong while it was armed, a sentence for the user as of start(); NULL: nothing. When it is asleep again; may be NULL. */
    const char *(*trouble)(void);
    void (*forked)(void);          /* this is the child of a fork: forget all; only stores. May be NULL */
};
uint64_t tap_flight_wanted(void);  /* bytes of the flight recorder's ring in this arm; 0: none */
/* The recorder asks to keep what the flight recorder has. NULL: it is being kept; else why not. From the tap's thread. */
const char *tap_cuda_keep(enum tap_flight why);
uint32_t tap_cuda_flight_mib(void); /* of the ring that there is */
bool tap_cuda_injected(void);      /* CUDA's driver has loaded us: what runs on the GPU is seen there */
bool tap_hip_used(void);           /* the same of HIP, which has loaded code */
extern const struct tap_front tap_front_td, tap_front_ggml, tap_front_vllm, tap_front_cuda, tap_front_hip;

#pragma GCC visibility pop
#endif
