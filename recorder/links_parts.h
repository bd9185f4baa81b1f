/* links_parts.h - what the files links*.c share. Others include links.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   links.c      the life of a link: open, arm, disarm, close      links_find.c  processes, ports, sockets
 *   links_env.c  the environment of a server with the tap          links_talk.c  messages and shared memory
 *   links_pump.c rings -> the fixture */
#ifndef TD_RECORDER_LINKS_PARTS_H
#define TD_RECORDER_LINKS_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "recorder/layers.h"
#include "recorder/links.h"
#include "recorder/tap/tap_proto.h"

#define LINKS_MAX 64                  /* processes of one server */
#define LINKS_SOCKET sizeof(((struct sockaddr_un *)0)->sun_path)

/* ---- links_find.c ---- */
struct links_found { pid_t pid; char socket[LINKS_SOCKET]; };
/* Sockets of the target's processes. TD_ENOTFOUND says why there are none. */
int links_find(const struct td_links_target *t, struct links_found out[LINKS_MAX], int *n, struct td_error *err);
/* The folder of the sockets, for a server that is about to start. */
int links_runtime_dir(char *out, size_t n, struct td_error *err);
/* --model of a process's command line, if it is a folder with a config.json. False: none. */
bool links_model_folder(pid_t pid, char *out, size_t n);

/* ---- one process ---- */

struct link_weight {                  /* a set of four tensors; index = the tap's id for it in this ring */
    uint8_t *data;                    /* until settled */
    uint64_t have, total, bytes[TAP_WEIGHT_TENSORS];
    bool settled;                     /* the rest is filled */
    bool act_order;
    char *layer;                      /* NULL: unknown */
    struct td_tensor_rec tensor[TAP_WEIGHT_TENSORS];
};

struct link_ring {
    struct tap_ring *shared;
    const uint8_t *data;              /* mapped twice in a row */
    struct link_weight *weights;
    uint32_t n_weights;
    bool corrupt;                     /* nothing more is read from it */
    struct tap_counter seen[TAP_COUNTS]; /* of shared->counts, as far as the ledger has them */
};

struct link {
    pid_t pid;                        /* as the tap gave it: inside a container it is the container's */
    char socket[LINKS_SOCKET];
    char library[TAP_TEXT], build[TAP_TEXT];
    int fd;
    bool alive;
    uint32_t armed;                   /* the generation that we armed, 0: none */
    struct tap_shared *shared;
    uint32_t rings;
    uint64_t ring_bytes;
    struct link_ring ring[TAP_MAX_RINGS];
    struct tap_counter seen[TAP_COUNTS];
};

struct td_links {
    struct td_links_options opt;
    struct td_links_mode mode;
    char nonce[TD_LINKS_NONCE];
    struct td_layers *layers;
    char *why_no_layers;
    struct link link[LINKS_MAX];
    int n;

    pthread_mutex_t lock;             /* all below, and the links' rings and counts */
    pthread_t pump, heart;
    bool pumping, beating;
    atomic_bool stop;
    atomic_int waiting;               /* for the lock: a busy pump makes room */
    int64_t next_op;
    struct td_links_state state;
    struct td_error failed;           /* the first failure of the writer */
};

/* ---- links_talk.c ---- */
/* Connect and greet; lk->fd, pid, library, build are filled. */
int links_greet(struct link *lk, const struct links_found *at, struct td_error *err);
int links_attach(struct link *lk, uint32_t rings, uint64_t ring_bytes, struct td_error *err);
/* Send m, wait for the reply into *reply. TD_EIO: the process is gone. */
int links_ask(struct link *lk, struct tap_msg *m, struct tap_msg *reply, int timeout_ms, struct td_error *err);
void links_release(struct link *lk);

/* ---- links_pump.c ---- */
/* Read what there is in all rings of lk into the writer. The lock is held. Returns the number of records. */
int links_drain(struct td_links *l, struct link *lk);
/* Bring the ledger up to date with the tap's counters. The lock is held. */
void links_count(struct td_links *l, struct link *lk);
void links_weights_release(struct link_ring *r);

#endif
