/* client_state.h - what the files links*.c share. Others include tap_client.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   tap_client.c      the life of a link: open, arm, disarm, close      find_taps.c  processes, ports, sockets
 *   server_env.c  the environment of a server with the tap          tap_connection.c  messages and shared memory
 *   read_rings.c rings -> the fixture: the ledger                  read_ops.c   one op: its record checked and written
 *   read_weights.c  sets of weights, put together and settled       kernel_counts.c  kernels of a GPU, counted by name
 *   flight_facts.c   what flight recorders kept, the first bad op     wanted_layers.c  --layers
 *   server_images.c   the code of the GPU kernels that were recorded    read_steps.c    steps, and whose rows they computed */
#ifndef TD_RECORDER_TAP_CLIENT_CLIENT_STATE_H
#define TD_RECORDER_TAP_CLIENT_CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "recorder/tap_client/layer_filter.h"
#include "recorder/tap_client/tap_client.h"
#include "model/identify/identify.h"
#include "recorder/tap/core/tap_proto.h"

#define CLIENT_MAX 64                  /* processes of one server */
#define CLIENT_ALIGN 64u
#define CLIENT_KEEP_MS 3000
#define CLIENT_SOCKET sizeof(((struct sockaddr_un *)0)->sun_path)

/* ---- find_taps.c ---- */
struct client_found { pid_t pid; char socket[CLIENT_SOCKET]; };
/* Sockets of the target's processes. TD_ENOTFOUND says why there are none. */
int client_find(const struct td_tap_client_target *t, struct client_found out[CLIENT_MAX], int *n, struct td_error *err);
/* The folder of the sockets, for a server that is about to start. */
int client_runtime_dir(char *out, size_t n, struct td_error *err);
/* --model of a process's command line, if it is a folder with a config.json or a GGUF file. False: none. */
bool client_model_path(pid_t pid, char *out, size_t n);

/* ---- one process ---- */

struct client_set {                     /* weights of one layer as ops of the fixture have them: identify.h's result */
    struct td_hash key;               /* of how the tap described them: all ops of the set must agree */
    char *layer;                      /* NULL: unknown */
    bool named_by_call;               /* ops of the set have names of their own */
    bool unwanted;                    /* by its layer's name: nothing of it is kept */
    struct td_tensor_rec t[TD_WEIGHT_SET_TENSORS]; int n;
    struct td_weight_attr extra[TD_WEIGHT_SET_EXTRA]; int n_extra;
};

struct client_weight {                  /* a set that is sent; index = the tap's id for it in this ring */
    uint8_t *data;                    /* until settled: each tensor at a multiple of CLIENT_ALIGN */
    uint64_t have, total, bytes[TAP_MAX_WEIGHTS];
    struct client_set *set;             /* NULL: not settled yet */
};

struct client_opaque { struct td_hash key; struct client_set *set; }; /* keys side by side: they are searched */

/* An op's record: the head copied out of the ring and checked, the bytes of tensors where they lie. */
struct client_op {
    const struct tap_op *rec;
    const char *name;                 /* NULL: none */
    struct tap_attr attr[TAP_MAX_ATTRS];
    struct tap_tensor tensor[TAP_MAX_WEIGHTS + TAP_MAX_INPUTS + 1]; /* weights, inputs, output */
    struct tap_fingerprint print;
    struct tap_launch launch[TAP_MAX_LAUNCHES];
    const uint8_t *data[TAP_MAX_INPUTS + 1]; /* of inputs (NULL: opaque) and the output */
    uint64_t bytes;                   /* of inputs and output */
};

struct client_kernel { int64_t n; bool known; char *symbol; };

struct client_ring {
    struct tap_ring *shared;
    const uint8_t *data;              /* mapped twice in a row */
    struct client_weight *weights;
    uint32_t n_weights;
    struct client_opaque *opaque;       /* sets that cannot be read, known by their description */
    uint32_t n_opaque;
    bool corrupt;                     /* nothing more is read from it */
    struct tap_counter seen[TAP_COUNTS]; /* of shared->counts, as far as the ledger has them */
};

struct client_tap {
    pid_t pid;                        /* as the tap gave it: inside a container it is the container's */
    char socket[CLIENT_SOCKET];
    char library[TAP_TEXT], build[TAP_TEXT], fronts[TAP_FRONTS];
    char title[64];                   /* what the process calls itself, "VLLM::Worker_TP1" */
    int rank;                         /* of a tensor-parallel server; -1: it has no ranks, or does not say */
    int fd, code_fd;                  /* code_fd: the library, -1: it could not be opened */
    bool alive;
    uint32_t armed;                   /* the generation that we armed, 0: none */
    struct tap_shared *shared;
    uint32_t rings;
    uint64_t ring_bytes;
    struct client_ring ring[TAP_MAX_RINGS];
    struct tap_counter seen[TAP_COUNTS];
};

struct client_bad {                    /* the first op with a bad output */
    bool found;
    int64_t t_ns, op, m, n, k;
    uint64_t values, not_finite, in_not_finite; /* of the output; of the inputs */
    char layer[512], symbol[TAP_SYMBOL];
};
struct client_flight { cJSON *kept; struct client_bad bad; };

struct td_tap_client {
    struct td_tap_client_options opt;
    struct td_tap_client_mode mode;
    char nonce[TD_TAP_CLIENT_NONCE];
    struct td_layer_index *layers;
    char *why_no_layers;
    struct client_tap link[CLIENT_MAX];
    int n;

    pthread_mutex_t talk;             /* messages to taps: the caller's thread, and a signal's by the pump. Taken before `lock` */
    pthread_mutex_t lock;             /* all below, and the links' rings and counts */
    pthread_t pump, heart;
    bool pumping, beating;
    atomic_bool stop;
    atomic_int waiting;               /* for the lock: a busy pump makes room */
    int64_t next_op;
    struct client_kernel *kernels;      /* launched in any process, by name */
    uint32_t n_kernels;
    struct td_layer_filter *filter;   /* NULL: all layers */
    bool nameless;                    /* the filter dropped ops because they have no name */
    struct client_flight flight;
    struct td_rows_step *held; size_t n_held, cap_held; /* steps whose rows nobody named, until it is known which requests there were */
    char *unseen;                     /* what a tap said when it was armed: why launches are not seen; NULL: nothing */
    struct td_tap_client_state state;
    struct td_error failed;           /* the first failure of the writer */
};

/* ---- server_images.c ---- */
/* The library of a process (its number is ours), if it has that file mapped now: a file descriptor; -1: it cannot be opened, or is another file by now. */
int client_images_open(pid_t pid, const char *library);
/* At the end, while the kernels' names are there: tap.images of the manifest, and a blob for each container. */
void client_images_keep(struct td_tap_client *l);

/* ---- process_rank.c ---- */
/* Fill title and rank of the process (its number is ours, not a container's). */
void client_rank(struct client_tap *lk, pid_t pid);

/* ---- tap_connection.c ---- */
/* Connect and greet; lk->fd, pid, library, build are filled. */
int client_greet(struct client_tap *lk, const struct client_found *at, struct td_error *err);
int client_attach(struct client_tap *lk, uint32_t rings, uint64_t ring_bytes, struct td_error *err);
/* Send m, wait for the reply into *reply. TD_EIO: the process is gone. */
int client_ask(struct client_tap *lk, struct tap_msg *m, struct tap_msg *reply, int timeout_ms, struct td_error *err);
void client_release(struct client_tap *lk);

/* ---- read_rings.c ---- */
#define CLIENT_DRAIN_MAX 256           /* records of a ring in one go, while others wait for the lock */
/* Read what there is in the rings of lk into the writer. The lock is held. Returns the number of records. */
int client_drain(struct td_tap_client *l, struct client_tap *lk);
/* The share of its fullest ring that is in use. */
double client_full(const struct client_tap *lk);
/* Bring the ledger up to date with the tap's counters. The lock is held. */
void client_count(struct td_tap_client *l, struct client_tap *lk);
void client_took(struct td_tap_client *l, const char *seen, const char *name, int64_t bytes);
void client_keep_failure(struct td_tap_client *l, int rc, const char *what);

/* ---- read_steps.c ---- */
/* False: the record does not hold together. data : what follows its head in the ring. */
bool client_take_step(struct td_tap_client *l, struct client_tap *lk, const struct tap_step *rec, const uint8_t *data);
/* An op of a step came: how many rows it has, and since when it runs. */
void client_step_rows(struct td_tap_client *l, const struct client_tap *lk, const struct client_op *op);
/* Name the rows of the steps that are held; write them. The lock is held. */
void client_name_held(struct td_tap_client *l, struct td_rows_request *requests, size_t n);
void client_write_held(struct td_tap_client *l);

/* ---- read_ops.c ---- */
/* A tap's description of a tensor as the fixture's; no blob, no ref. */
void client_tensor_rec(struct td_tensor_rec *t, const struct tap_tensor *from);
/* Ends with NUL inside its n bytes, and prints: it will stand in JSON and on terminals. */
bool client_is_text(const char *s, size_t n, bool may_be_empty);
/* rec : our copy of the head of the record, which lies at `at`. False: it does not hold together. */
bool client_take_op(struct td_tap_client *l, struct client_tap *lk, struct client_ring *r, const struct tap_op *rec, const uint8_t *at);

/* ---- kernel_counts.c ---- */
/* A count of one kernel. False: the record does not hold together. */
bool client_take_kernel(struct td_tap_client *l, const struct tap_kernel *rec);
/* Facts "kernels" (those that were launched most) and "unseen" of the manifest's section "tap". */
void client_kernels_facts(struct td_tap_client *l);
/* What td_tap_client_state says of kernels. The lock is held. */
void client_kernels_state(const struct td_tap_client *l, struct td_tap_client_state *out);
void client_kernels_release(struct td_tap_client *l);

/* ---- flight_facts.c ---- */
/* What a flight recorder kept comes now. False: the record does not hold together. */
bool client_take_kept(struct td_tap_client *l, const struct client_tap *lk, const struct tap_kept *rec);
/* Why an op was kept, as a word for the fixture; NULL: it was taken. */
const char *client_flight_word(const struct tap_op *rec);
/* An op that was written: is it the first bad one? layer NULL: it has no name. */
void client_flight_look(struct td_tap_client *l, const struct client_op *op, const char *layer, int64_t number);
void client_flight_poll(struct td_tap_client *l); /* was a signal sent? Without the lock */
void client_flight_facts(struct td_tap_client *l);

/* ---- wanted_layers.c ---- */
/* Is an op with these weights wanted? set NULL: it has none. */
bool client_wants(struct td_tap_client *l, const struct client_op *op, const struct client_set *set);
/* The same of a set that is settled just now: before anything of it is stored. */
bool client_wants_layer(struct td_tap_client *l, const char *layer);
/* Let the tap copy no more ops with the set of that number. */
void client_refuse(struct client_ring *r, uint32_t weight);

/* ---- read_weights.c ---- */
/* The same for a chunk of weights; data : what follows the head in the ring. */
bool client_take_chunk(struct td_tap_client *l, struct client_ring *r, const struct tap_weight *rec, const uint8_t *data);
/* The weights of an op, settled. 0 with *set NULL: it has none. TD_ECORRUPT: the record does not hold together; others: the op is lost. */
int client_op_weights(struct td_tap_client *l, struct client_ring *r, const struct client_op *op, const struct client_set **set);
void client_weights_release(struct client_ring *r);

#endif
