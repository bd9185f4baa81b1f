/* tap_proto.h - the protocol between the tap and the recorder: messages on a socket, records in
 * shared memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Socket: AF_UNIX, SOCK_SEQPACKET, "tap-<pid>.sock" in a folder of mode 0700; one message a packet,
 * one recorder at a time. The tap greets whoever connects with a TAP_GREETING, which names the
 * process or says why not, and answers each message with one TAP_REPLY. The tap speaks first so
 * that a refusal arrives: closing a socket with unread words of the peer would reset the
 * connection.
 *
 * Memory: a memfd that the recorder makes, so that a server never pays for one that nobody reads.
 * It is sealed against any change of size, and the tap checks that before mapping it: a recorder
 * that truncated the memory could otherwise kill the server by SIGBUS.
 *     page 0              struct tap_shared
 *     page 1 .. rings     struct tap_ring, one each
 *     then                the rings' data, ring_bytes each, a multiple of TAP_PAGE
 * Both sides map the data of each ring twice in a row, so that a record is always contiguous. A
 * ring has one writer, a thread of the server or the GPU tap's sender, and one reader, the
 * recorder's pump. head and tail count bytes since the start and never wrap.
 *
 * Neither side trusts the other: the tap keeps its own head and geometry and checks tail; the
 * recorder checks every length. */
#ifndef TD_RECORDER_TAP_CORE_TAP_PROTO_H
#define TD_RECORDER_TAP_CORE_TAP_PROTO_H

#include <stdint.h>

#include "common/desc/op_desc.h"
#include "common/desc/weight_fingerprint.h"

#define TAP_MAGIC 0x50415444u /* "DTAP" */
#define TAP_VERSION 19u       /* both sides must be equal */
#define TAP_PAGE 4096u
#define TAP_MAX_RINGS 64u
#define TAP_MIN_RING_BYTES (64u << 10)
#define TAP_MAX_RING_BYTES (1u << 30)
#define TAP_MAX_CHUNK (256u << 10) /* bytes of weights in one record */
#define TAP_MAX_ID 160u            /* bytes of a request's id that are recorded */
#define TAP_MAX_SPANS 65536
#define TAP_TEXT 256
#define TAP_REFUSABLE_SETS 16384u  /* sets of weights of a ring that the recorder can refuse; ops of
                                    * higher numbers are sent, and dropped by the recorder */
#define TAP_FRONTS 64
#define TAP_MAX_ROWS_TEXT (64u << 10) /* bytes of the rows that the user wrote (ROWS); their file
                                       * comes as SCM_RIGHTS */
#define TAP_BEAT_MS 100            /* in this time the recorder moves the heartbeat twice */
#define TAP_DEAD_MS 1500           /* so long without a heartbeat: the tap goes to sleep */

/* ---- messages -------------------------------------------------------------------------------- */

enum tap_msg_type {
    TAP_GREETING = 1,
    TAP_ATTACH,
    TAP_ARM,
    TAP_DISARM,
    TAP_REPLY,
    TAP_DUMP,
    TAP_ROWS,
    TAP_TIMES
};
enum tap_status { TAP_OK = 0, TAP_BAD_VERSION, TAP_BUSY, TAP_REFUSED };

/* One layout for all messages; fields that a type does not use are zero. The first two fields never
 * change place or meaning. */
struct tap_msg {
    uint32_t magic, version;
    uint32_t type, status;         /* enum tap_msg_type, enum tap_status */
    uint32_t rings;                /* ATTACH: how many; the memory comes as SCM_RIGHTS */
    uint32_t mode;                 /* ARM: enum tap_mode; DUMP: enum tap_dump_reason; TIMES: enum
                                    * tap_times_step; REPLY to TIMES GET: enum tap_seen */
    uint64_t ring_bytes;           /* ATTACH: of each ring; ROWS: of the text */
    uint32_t percent_ppm;          /* ARM, sampling: share of steps in millionths */
    uint32_t generation;           /* REPLY to ARM: number of this arm */
    uint32_t kinds;                /* ARM: enum tap_kinds */
    uint32_t flight_mib;           /* ARM: flight recorder's ring, 0: none; REPLY: what there is */
    uint32_t time_ppm;             /* ARM, sampling: share of the time of a thread that launches on
                                    * a GPU that copies may take, in millionths; 0: no limit */
    uint32_t no_launches;          /* ARM: 1: watch no launches on a GPU (--launches off) */
    int64_t budget_bytes_per_s;    /* ARM: <= 0: no limit */
    int64_t pid;                   /* GREETING, REPLY */
    char text[TAP_TEXT];           /* GREETING, REPLY: why not, or a remark for the user */
    char library[TAP_TEXT];        /* GREETING: where the real function lives, */
    char build[TAP_TEXT];          /* and how its build describes itself; of the first front that
                                    * has seen calls */
    char fronts[TAP_FRONTS];       /* GREETING: names of all fronts that have, "ggml vllm" */
    uint32_t number;               /* TIMES: BEGIN: ms; GET: which kernel, from 0; REPLY to END: how
                                    * many kernels there are; GREETING with BUSY: the process that
                                    * is connected, by its number in the tap's namespace, 0: not
                                    * known */
    uint32_t lost;                 /* REPLY to END: launches whose times are not known */
    uint64_t launches, time_ns;    /* REPLY to END: of all kernels; to GET: of this one */
    uint64_t window_ns;            /* REPLY to END: how long the window was open */
    char kernel[TD_OP_MAX_SYMBOL]; /* REPLY to GET: its name, cut where it is longer; "": all kernels
                                    * for which there was no room */
};

/* The share of kernels in the GPU's time. A window is open from BEGIN for `number` ms, or to END. What
 * it holds stays until the next BEGIN or ARM. Not while armed. */
enum tap_times_step { TAP_TIMES_BEGIN = 1, TAP_TIMES_END, TAP_TIMES_GET };
enum tap_seen {
    TAP_SEEN_UNKNOWN,              /* nobody knows, or launches of both kinds have this name */
    TAP_SEEN_RECORDED,             /* launched by what the tap records */
    TAP_SEEN_NOT                   /* launched by what the tap does not read */
};
#define TAP_TIMES_KERNELS 257u     /* the most that END tells, with the one without a name */
#define TAP_TIMES_MAX_MS 5000u

enum tap_mode { TAP_MODE_SAMPLE = 1, TAP_MODE_ALL = 2 };
enum tap_kinds { TAP_KINDS_GEMM = 0, TAP_KINDS_ALL = 1 };
/* Why the flight recorder's ring was dumped: the tap saw a bad output (NOT_FINITE, ZERO), or the
 * recorder asked for it (SIGNAL, COLLAPSE). NONE: it was not. */
enum tap_dump_reason {
    TAP_DUMP_NONE,
    TAP_DUMP_NOT_FINITE,
    TAP_DUMP_ZERO,
    TAP_DUMP_SIGNAL,
    TAP_DUMP_COLLAPSE,
    TAP_DUMP_REASONS
};

/* ---- shared memory --------------------------------------------------------------------------- */

#define TAP_THREAD "tapedeck-tap"    /* the name of the tap's thread, also while it cannot listen */

/* Counters. Each is written by one side only; the other may read it at any time, also after the
 * writer's death. Bytes are those of an op's inputs and output. OPS_ and STEPS_ other than SENT say
 * why one was not recorded. */
enum tap_count {
    TAP_OPS_SENT,
    TAP_OPS_SAMPLING,              /* outside the sample */
    TAP_OPS_BUDGET,                /* over the budget */
    TAP_OPS_RING,                  /* no room in the ring */
    TAP_OPS_WEIGHTS,               /* its weights have not gone over completely */
    TAP_OPS_PARTIAL,               /* in no step, or left out of one that is recorded */
    TAP_OPS_FAILED,                /* the call failed, or its description made no sense */
    TAP_OPS_THREADS,               /* no ring was free for the thread */
    TAP_OPS_UNREADABLE,            /* inputs or output in memory that cannot be read */
    TAP_OPS_GRAPH,                 /* captured in a CUDA graph: once where graphs are not seen, else
                                    * at each launch of a graph without copies of it */
    TAP_OPS_FLIGHT,                /* went through the flight recorder's ring without being dumped,
                                    * or came during a dump */
    TAP_OPS_LAYERS,                /* of a layer that the recorder refused */
    TAP_OPS_ACTIVATIONS,           /* of two activations: its W, which no quantisation tells from a
                                    * weight, has changed */
    TAP_OPS_ROTATION,              /* in a graph whose twin copies a part of its ops at a time: not in
                                    * this one */
    TAP_STEPS_SENT,
    TAP_STEPS_SAMPLING,
    TAP_STEPS_BUDGET,
    TAP_STEPS_RING,
    TAP_STEPS_THREADS,
    TAP_STEPS_FLIGHT,
    TAP_STEPS_GRAPH,
    TAP_LAUNCHES,                  /* of kernels, whoever launched them */
    TAP_LAUNCHES_KNOWN,            /* of kernels that an adapter reads */
    TAP_GRAPHS,                    /* launches of whole CUDA graphs */
    TAP_GRAPHS_READ,               /* of graphs whose capture was watched (--graphs) */
    TAP_GRAPHS_NO_ROOM,            /* of graphs without a twin, for which there is no memory */
    TAP_GRAPHS_NO_TWIN,            /* of graphs of which no twin can be made */
    TAP_TWINS,                     /* of graphs that were made; bytes: what they count for */
    TAP_RESTS,                     /* pauses between windows of the sample: nothing was watched, */
    TAP_RESTED_MS,                 /* and the ms of all of them */
    TAP_SPENT_US,                  /* in the server's threads before the arm (tap_spent.h), in us */
    TAP_COUNTS
};
struct tap_counter { _Atomic uint64_t n, bytes; };

enum tap_asleep { TAP_ASLEEP_ASKED = 0, TAP_ASLEEP_HEARTBEAT };

struct tap_shared {
    uint32_t magic, version;
    _Atomic uint64_t heartbeat;    /* moved by the recorder */
    _Atomic uint32_t armed;        /* by the tap: the generation, 0 = asleep */
    _Atomic uint32_t why_asleep;   /* by the tap: enum tap_asleep */
    struct tap_counter counts[TAP_COUNTS]; /* of threads without a ring */
};

struct tap_ring {
    _Alignas(64) _Atomic uint64_t head; /* by the server's thread: all before it is complete */
    _Alignas(64) _Atomic uint64_t tail; /* by the recorder */
    _Alignas(64) struct tap_counter counts[TAP_COUNTS];
    /* By the recorder, a bit for each number of a set of weights: ops with them are not wanted. */
    _Atomic uint64_t refused_sets[TAP_REFUSABLE_SETS / 64];
};

/* ---- records --------------------------------------------------------------------------------- */

enum tap_rec_type {
    TAP_REC_STEP = 1,
    TAP_REC_WEIGHT,
    TAP_REC_OP,
    TAP_REC_KERNEL,
    TAP_REC_DUMP,
    TAP_REC_OPERATOR
};
#define TAP_REC_ALIGN 16u

struct tap_rec {
    uint32_t size;                 /* of the whole, padding included: a multiple of TAP_REC_ALIGN */
    uint16_t type, reserved;
    uint32_t tid;
    uint32_t generation;
    int64_t t_ns;                  /* CLOCK_MONOTONIC */
};

/* A recorded step. n_spans struct tap_span follow (0: it is not known whose rows these are), then
 * their ids without NUL, in a row. */
struct tap_step {
    struct tap_rec rec;
    uint64_t step;
    int32_t n_spans;
    uint32_t ids_bytes;
};
struct tap_span {
    uint64_t request;
    int32_t first_row, n_rows, position;
    uint16_t decode, id_len;
};

/* The limits of an op are those of common/desc/op_desc.h, under the tap's names. */
#define TAP_DIMS TD_OP_MAX_DIMS
#define TAP_MAX_ATTRS TD_OP_MAX_CALL_ATTRS
#define TAP_MAX_WEIGHTS TD_OP_MAX_WEIGHTS
#define TAP_MAX_INPUTS TD_OP_MAX_INPUTS
#define TAP_SYMBOL TD_OP_MAX_SYMBOL
#define TAP_MAX_LAUNCHES TD_OP_MAX_LAUNCHES
#define TAP_NAME 96                /* of a layer or node, with the NUL */
#define TAP_OPERATOR 128           /* of an operator of torch, with the NUL */
#define TAP_OPERATOR_KEY 48

/* A tensor of a record. Strings end with NUL; the tensor's bytes follow elsewhere in the record.
 * The struct has no padding: the recorder compares descriptions byte by byte. */
struct tap_tensor {
    char role[TD_OP_MAX_ROLE], dtype[TD_OP_MAX_DTYPE];
    int32_t ndim;
    uint16_t opaque;               /* 1: no bytes came along, they cannot be read */
    uint16_t align;                /* log2 of the address's alignment, at most 12 */
    int64_t shape[TAP_DIMS], strides[TAP_DIMS]; /* elements; blocks of a block format */
    uint64_t bytes;                /* that came along */
};

/* A chunk of a weight set. The readable tensors of the set, one after the other in the order of the
 * op's w[], make one stream of bytes; the chunk is [offset, offset + len) of that stream. */
struct tap_weight {
    struct tap_rec rec;
    uint32_t id;                   /* of the set, unique in the ring */
    uint32_t len;
    uint64_t offset;
    uint64_t bytes[TAP_MAX_WEIGHTS]; /* 0: opaque, or there is none */
};                                 /* len bytes follow */

/* A recorded call. In this order follow:
 *   struct td_attr          n_attrs of them
 *   struct tap_tensor       n_w + n_in + 1 of them: weights, inputs, the output
 *   struct td_weight_fingerprint  if has_fingerprint
 *   struct td_op_launch     n_launches of them
 *   bytes                   of each input that is not opaque, then of the output; each begins at
 *                           the next multiple of TAP_REC_ALIGN from the start of the record
 * Strings end with NUL; "" means none. */
struct tap_op {
    struct tap_rec rec;            /* t_ns: start of the real call */
    uint64_t seq;                  /* of recorded ops, over all threads of the process */
    uint64_t step;
    int64_t duration_ns;           /* of the real call; -1: not measured */
    char kind[TD_OP_MAX_KIND], symbol[TAP_SYMBOL], layout[TD_OP_MAX_LAYOUT];
    char rounding[TD_OP_MAX_ROUNDING], name[TAP_NAME];
    uint32_t weight;               /* a set that came complete before, in the same ring; 0: none, or
                                    * all weights are opaque */
    uint16_t has_step, has_fingerprint, n_attrs, n_w, n_in, n_launches;
    uint16_t dump_reason, reserved[3]; /* enum tap_dump_reason */
};

/* A kernel by its name: how often it was launched since its last record. */
struct tap_kernel {
    struct tap_rec rec;
    uint64_t n;
    uint32_t known, reserved[3];   /* known 1: an adapter reads it */
    char symbol[TAP_SYMBOL];
};

/* An operator of torch by its name: how often it was called since its last record, and the bytes of
 * its tensors in these calls. */
struct tap_operator {
    struct tap_rec rec;
    uint64_t calls, bytes;
    uint64_t known;                /* 1: the tap records its calls as ops */
    char name[TAP_OPERATOR];       /* "_C::machete_mm" */
    char key[TAP_OPERATOR_KEY];    /* "CUDA": for which kind of tensors this implementation is */
};

/* A dump of the flight recorder begins: ops from its ring follow. */
struct tap_dump {
    struct tap_rec rec;            /* t_ns: when something was seen, or asked for */
    uint32_t why, reserved;        /* enum tap_dump_reason */
    uint64_t ring_bytes, unused;
};

static inline uint64_t tap_round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
static inline uint64_t tap_memory_bytes(uint32_t rings, uint64_t ring_bytes)
{
    return (uint64_t)TAP_PAGE * (1 + rings) + rings * ring_bytes;
}

_Static_assert(sizeof(struct tap_shared) <= TAP_PAGE && sizeof(struct tap_ring) <= TAP_PAGE,
               "a page each");
_Static_assert(sizeof(struct tap_op) % 8 == 0 && sizeof(struct tap_step) % 8 == 0 &&
                   sizeof(struct td_weight_fingerprint) % 8 == 0,
               "what follows is aligned");
_Static_assert(sizeof(struct tap_tensor) == 184 && sizeof(struct tap_kernel) % TAP_REC_ALIGN == 0 &&
               sizeof(struct tap_dump) % TAP_REC_ALIGN == 0 &&
               sizeof(struct tap_operator) % TAP_REC_ALIGN == 0,
               "no padding");

#endif
