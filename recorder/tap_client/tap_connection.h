/* tap_connection.h - one connection: a tap's socket, and the memory shared with it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Messages go over the socket, ops through rings in shared memory (recorder/tap/core/tap_proto.h).
 * One thread may use the socket at a time; the rings have one reader. */
#ifndef TD_RECORDER_TAP_CLIENT_TAP_CONNECTION_H
#define TD_RECORDER_TAP_CLIENT_TAP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "recorder/tap/core/tap_proto.h"
#include "recorder/tap_client/find_taps.h"
#include "recorder/tap_client/name_index.h"

struct client_sent_set;
struct client_opaque_set;

/* A ring of one thread of the server, and what was read from it so far. */
struct client_ring {
    struct tap_ring *shared;
    const uint8_t *data;              /* mapped twice in a row */
    struct client_sent_set *weights; uint32_t n_weights; /* read_weights.h: sets whose bytes were
                                                            sent; the index is the tap's id */
    struct client_opaque_set *opaque; uint32_t n_opaque;   /* read_weights.h: sets that cannot be
                                                              read */
    struct client_index opaque_index; /* of `opaque`, by key */
    int64_t ops_read;                 /* records of ops, wanted or not */
    bool corrupt;                     /* it does not hold together: nothing more is read from it */
    uint64_t read, read_before;       /* bytes; those before client_drain_all(). shared->tail is for
                                         the tap, which may write to it: only this one is believed */
    struct tap_counter seen[TAP_COUNTS]; /* of shared->counts, as far as the ledger has them */
};

struct client_tap {
    pid_t pid;                        /* as the tap gave it: inside a container it is the
                                         container's */
    char socket[CLIENT_SOCKET_PATH];
    char library[TAP_TEXT], build[TAP_TEXT], fronts[TAP_FRONTS];
    char title[64];                   /* what the process calls itself, "VLLM::Worker_TP1" */
    int rank;                         /* of a tensor-parallel server; -1: it has no ranks, or does
                                         not tell */
    int fd, code_fd;                  /* the socket; the library, -1: it could not be opened */
    char remark[TAP_TEXT];            /* the last one that the tap made about an arm: armed, but */
    bool alive;
    bool times;                       /* it has a window of times (gpu_shares.h) */
    uint32_t armed;                   /* the generation that we armed, 0: none */
    struct tap_shared *shared;
    uint32_t rings;
    uint64_t ring_bytes;
    int64_t booked;                   /* bytes of the shared memory, counted by common/memory.h */
    struct client_ring ring[TAP_MAX_RINGS];
    /* The last op that has a layer: its layer's name up to the number, and its step. */
    char near[TAP_NAME];
    uint64_t near_step;
    char beside[TAP_NAME + TD_OP_MAX_KIND]; /* name that was made for the op at hand */
    struct tap_counter seen[TAP_COUNTS]; /* of shared->counts, which threads without a ring use */
};

/* Connect, and read the tap's greeting: fills *tap but for the shared memory. TD_ENOTFOUND: nobody
 * serves the socket any more; TD_EVERSION, TD_EPROTO; TD_EEXIST: another recorder is connected.
 * After an error there is nothing to close. */
int client_tap_greet(struct client_tap *tap, const struct client_found *at, struct td_error *err);

/* Share memory with the tap: so many rings of so many bytes, a multiple of TAP_PAGE. */
int client_tap_attach(struct client_tap *tap, uint32_t rings, uint64_t ring_bytes,
                      struct td_error *err);

/* Send the rows that the user wrote, a text of n bytes. TD_EPROTO: the tap does not take them. */
int client_tap_send_rows(struct client_tap *tap, const char *rows, size_t n, struct td_error *err);

/* Send m, and wait for the reply. TD_EIO: the process is gone; TD_ETIMEOUT; TD_EPROTO: the tap
 * refuses. */
int client_tap_ask(struct client_tap *tap, struct tap_msg *m, struct tap_msg *reply, int timeout_ms,
                   struct td_error *err);

/* Has the process closed its end? */
bool client_tap_hung_up(const struct client_tap *tap);

/* Close the socket and unmap the memory. The weights of its rings were released before
 * (read_weights.h). */
void client_tap_close(struct client_tap *tap);

#endif
