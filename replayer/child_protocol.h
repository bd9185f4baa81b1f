/* child_protocol.h - what the replayer and a build's process (the child) say to each other.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They are connected by a socket (SOCK_SEQPACKET) for messages and by shared memory (the arena, a
 * memfd) for tensors. A packet is one struct td_proto_msg, in the machine's byte order. Every
 * request gets one reply with its type and seq, unless the table says "no reply". The arena holds
 * struct td_proto_arena, then the input tensors, then room for `repeats` images of the output. A
 * child may be any program that speaks this protocol, such as a provider in Python; so element
 * types travel by name, and all integers have fixed sizes.
 *
 * request   carries                              reply
 * HELLO     version, provider, text = its        status; text = the reason, or the build's
 *           argument ("": none)                  description of itself
 * ARENA     size and descriptor; replaces the    no reply
 *           arena before
 * RUN       repeats, flags, size = bytes that    status, reason, repeats done, rounding, size =
 *           the child may hold itself            bytes that it holds; the images are in the arena
 * PREPARE   flags, size; keeps the arena's op    status, reason, size
 *           ready for TIME
 * TIME      iterations, flags                    status, ns of all iterations together; text = ""
 *                                                or the device's condition, a line before and a
 *                                                line after (provider.h, condition)
 * RELEASE   forgets what PREPARE made            status
 * RESTART   become a new process image; one in   no reply; HELLO is next
 *           Python (ON_GPU) may go on in other
 *           memory instead
 * BYE       end                                  no reply */
#ifndef TD_REPLAYER_CHILD_PROTOCOL_H
#define TD_REPLAYER_CHILD_PROTOCOL_H

#include <stdint.h>

#include "kernels/ops/op.h"

#define TD_PROTO_MAGIC 0x4f525054u /* "TPRO" */
/* 2: act_rounding in the arena, rounding in the reply to RUN; 3: symbol and layout in the arena,
 * TD_PROTO_LAST, TD_PROTO_VARIES; 4: launches in the arena; 5: the limits of common/desc/op_desc.h,
 * flags of launches; 6: reached in the arena; 7: size in RUN and PREPARE, NO_MEMORY of any stage;
 * 8: roundings of 31 bytes; 9: content of tensors */
#define TD_PROTO_VERSION 9
#define TD_PROTO_MAX_REPEATS 64
#define TD_PROTO_ARENA_MAX ((uint64_t)1 << 36)

enum td_proto_type {
    TD_PROTO_HELLO = 1,
    TD_PROTO_ARENA,
    TD_PROTO_RUN,
    TD_PROTO_PREPARE,
    TD_PROTO_TIME,
    TD_PROTO_RELEASE,
    TD_PROTO_RESTART,
    TD_PROTO_BYE
};
enum td_proto_status { TD_PROTO_OK = 0, TD_PROTO_UNSUPPORTED = 1, TD_PROTO_FAILED = 2,
                       TD_PROTO_NO_MEMORY = 3 }; /* failed for want of memory, its own or the build's */
enum td_proto_flag { TD_PROTO_GUARD = 1, TD_PROTO_COLD = 2,
                     TD_PROTO_VARIES = 8, /* of a reply to RUN: the kernel is known to give other bits each time */
                     TD_PROTO_TIMES = 32, /* of RUN: the text of a good reply may say how long each stage took, in ns,
                                             "LOAD PREPARE RUN FETCH RELEASE" */
                     TD_PROTO_ON_GPU = 16, /* of a reply to HELLO: it times with a GPU's clock, and RESTART gives
                                              it other memory in the same process */
                     TD_PROTO_LAST = 4 /* of a reply: what ran cannot run again in this process, which ends now */ };

struct td_proto_msg {
    uint32_t magic, version, type, seq;
    int32_t status;          /* enum td_proto_status; of HELLO also enum td_code */
    uint32_t flags;
    uint32_t repeats;        /* asked for, or done */
    uint32_t iterations;     /* to time; of a reply to RUN: how the kernel keeps its sums in halves, packed
                                (kernels/ops/half_sums.h), 0: it keeps them in float32 */
    uint64_t size;           /* of the arena; of the child's own memory, without the build's */
    int64_t ns;
    char provider[32];
    char rounding[TD_OP_MAX_ROUNDING]; /* what the build does to the op's activations; "": what the op says */
    char text[3992];
};

/* Not struct td_tensor: another process may be another program, so element types go by name and data by offsets. */
struct td_proto_tensor {
    char role[TD_OP_MAX_ROLE], dtype[TD_OP_MAX_DTYPE];
    int64_t ndim;
    int64_t shape[TD_OP_MAX_DIMS], strides[TD_OP_MAX_DIMS];
    uint64_t offset, size_bytes, align; /* offset in the arena */
    struct td_hash content;             /* of its bytes; zero: not known. A child may keep a copy for the next op */
};

/* What the child is doing, for the parent to read when it crashed or hangs. The op's kernel runs in
 * RUN and not before it. */
enum td_proto_stage { TD_STAGE_IDLE, TD_STAGE_LOAD, TD_STAGE_PREPARE, TD_STAGE_RUN, TD_STAGE_FETCH, TD_STAGE_RELEASE };
/* "idle", "load", "prepare", "run", "fetch", "release"; "?" for any other number */
const char *td_proto_stage_name(uint32_t stage);

struct td_proto_arena {
    uint32_t magic, version;
    volatile uint32_t stage, repeat;
    volatile uint64_t progress;     /* goes up with every stage: a deadline holds for one stage */
    volatile uint32_t reached, reserved; /* the last stage of the op that was begun; packing an op makes it IDLE */
    char fault[256];                /* written by the child's signal handler: where it faulted */
    char kind[TD_OP_MAX_KIND], act_rounding[TD_OP_MAX_ROUNDING];
    int64_t n_attrs, n_in;
    struct td_attr attrs[TD_OP_MAX_ATTRS];
    struct td_proto_tensor in[TD_OP_MAX_TENSORS],
        out; /* out.offset: the first image; images lie at size_bytes rounded up to 64 */
    char symbol[TD_OP_MAX_SYMBOL], layout[TD_OP_MAX_LAYOUT]; /* of the recorded kernel */
    int64_t n_launches;
    struct td_op_launch launches[TD_OP_MAX_LAUNCHES];
};

/* ---- packets ------------------------------------------------------------------------------------------------------- */

/* Send one packet, with the descriptor pass_fd unless that is < 0. TD_OK; TD_EIO: the other side is
 * gone. */
int td_proto_send(int sock, const struct td_proto_msg *m, int pass_fd, struct td_error *err);
/* Receive one packet.
 *   fd         : gets the descriptor that came with it, or -1; NULL: a descriptor is closed
 *   timeout_ms : < 0: wait for ever
 * TD_OK; TD_ETIMEOUT; TD_EIO: the other side is gone; TD_EPROTO: not this protocol or version. */
int td_proto_recv(int sock, struct td_proto_msg *m, int *fd, int timeout_ms, struct td_error *err);

/* ---- arenas -------------------------------------------------------------------------------------------------------- */

/* Bytes from one image of the output to the next. */
size_t td_proto_image_stride(size_t size_bytes);
/* Bytes of the copies of an op's tensors that a child makes, spare room included. */
uint64_t td_proto_copies_size(const struct td_op_call *op);
/* The size of an arena for this op and so many images. TD_ELIMIT. */
int td_proto_arena_size(const struct td_op_call *op, int repeats, uint64_t *size, struct td_error *err);
/* The inputs that lie in an arena already. All zero: none. */
struct td_proto_lies { int n; struct { struct td_hash content; uint64_t offset, size_bytes; } in[TD_OP_MAX_TENSORS]; };
/* Copy the op into an arena of `size` bytes; its weights come first, so that they lie where those of the op before lay.
 *   lies : what is there already is not copied again; gets what lies there now
 * TD_ELIMIT: it does not fit. */
int td_proto_pack(const struct td_op_call *op, void *arena, uint64_t size, int repeats, struct td_proto_lies *lies, struct td_error *err);
/* Read the op back, with tensors whose data point into the arena. Everything is checked against
 * `size`. *images: the first image. TD_EPROTO. */
int td_proto_unpack(void *arena, uint64_t size, int repeats, struct td_op_call *op, void **images, struct td_error *err);

#endif
