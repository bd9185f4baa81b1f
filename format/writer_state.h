/* writer_state.h - the state of a recording while it happens; for the writer_*.c files alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `lock` guards the queue and what callers share; `stat_lock` guards facts and counts. The rest belongs to the writer's
 * thread and needs no lock. Where both locks are needed, none is held while the other is taken. */
#ifndef TD_FORMAT_WRITER_STATE_H
#define TD_FORMAT_WRITER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <zstd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fixture_lock.h"
#include "common/fs.h"
#include "format/fixture.h"
#include "format/pack.h"
#include "format/redact.h"
#include "format/sink.h"

#define TD_WRITER_STREAMS 5
#define TD_WRITER_COUNTERS 1024   /* names in the ledger */

enum td_writer_item_type { TD_ITEM_WIRE, TD_ITEM_LINE, TD_ITEM_BLOB, TD_ITEM_COMMIT };

struct td_writer_item {
    struct td_writer_item *next;
    enum td_writer_item_type type;
    int stream;                 /* TD_ITEM_LINE: enum td_stream_kind */
    int elem_bytes;
    size_t used;                /* TD_ITEM_WIRE: bytes of `data`, which holds one struct td_wire and its bytes after another */
    struct td_hash hash;
    bool *done;                 /* TD_ITEM_COMMIT: set under `lock` */
    int64_t queued_ns;
    size_t len;
    uint8_t data[];
};

struct td_writer_list { struct td_writer_item *head, *last; };
struct td_writer_stream { struct td_sink sink; struct td_buf raw; uint32_t records; uint64_t frames, total; int64_t since_ns; };
struct td_writer_counter { char *name; int64_t n, bytes; bool dirty, full; };

struct td_writer {
    char dir[TD_PATH_MAX], id[33], tool[32];
    struct td_fixture_lock folder_lock;
    _Atomic int64_t bytes;      /* written to all files; set by the thread */
    int level, blob_level;      /* of zstd: lines, blobs */
    int64_t wall_ns, mono_ns;
    struct td_redactor *redactor;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, room, committed;
    struct td_writer_list soon, bulk; /* blobs, ops and steps may be many: the others pass them */
    int64_t queued, queue_max;  /* bytes of both */
    uint64_t came, done;        /* items */
    bool idle, stop, paused;
    bool hurry;                 /* somebody waits for what is queued */
    struct td_error failure;    /* the first; code 0: none */
    struct td_pack_index seen;  /* blobs queued or written (at = 0) */

    pthread_mutex_t stat_lock;
    cJSON *facts;
    struct td_buf fact_lines;   /* for the ledger, not yet written */
    struct td_writer_counter counter[TD_WRITER_COUNTERS];
    int n_counters;

    /* the writer thread's own */
    int64_t item_ns;            /* when the item was queued that is handled now */
    struct td_writer_stream stream[TD_WRITER_STREAMS];
    struct td_sink pack;
    struct td_pack_index index;
    ZSTD_CCtx *z;
    struct td_buf scratch;
};

#endif
