/* tap_client.h - the recorder's end of the tap: find it in a server, arm it, turn what it sends into ops and steps of a fixture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The order of a recording:
 *   1. start the server with td_tap_client_env() in its environment (or the user ran `eval "$(record --tap-env)"` before)
 *   2. send one warm-up request: the tap's socket exists from the server's first op on
 *   3. td_tap_client_open(): port -> process and its children -> a socket each; hello, versions, shared memory
 *   4. timed repeats with the tap asleep, then td_tap_client_arm(), the repeats marked "tapped", td_tap_client_disarm()
 *   5. td_tap_client_close(), before td_writer_close(): the last ops and counts are written there
 * Every request of step 4 carries the header  X-Request-Id: td_tap_client_request_id(nonce, stream).  A server that answers with
 * "id": "cmpl-<X-Request-Id>" thereby names the exchange of each row: steps are TD_HOW_EXACT. Rows of other ids get stream -1.
 *
 * What lands in the ledger (the sums balance: seen = kept + all dropped; steps likewise):
 *   ops.seen  ops.kept  ops.dropped.{sampling,budget,ring,threads,weights,partial,failed,recorder}   n, bytes of A and C
 *   ops.dropped.flight, steps.dropped.flight (passed the flight recorder and were not kept; flight.kept: how often it was)
 *   ops.dropped.layers (of layers that --layers does not want), weights.unwanted: their sets
 *   ops.dropped.graph (of CUDA graphs: captured, or launched, and not read), launches.seen  launches.known  launches.graphs  launches.graphs_read:
 *   of a GPU's kernels, graphs, graphs whose capture was watched; watch.rests  watch.rested_ms: nothing was watched so often, so long
 *   steps.seen  steps.kept  steps.dropped.{sampling,budget,ring,threads,recorder}
 *   weights.seen  weights.matched  weights.unmatched  weights.ambiguous  weights.stored        sets of one layer, bytes
 *   links.lost (a server process went away while linked), links.disarmed (the tap disarmed itself), links.corrupt */
#ifndef TD_RECORDER_TAP_CLIENT_TAP_CLIENT_H
#define TD_RECORDER_TAP_CLIENT_TAP_CLIENT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/error.h"
#include "format/fixture.h"
#include "recorder/tap_client/step_rows.h"

/* ---- the environment of a server with the tap ---------------------------------------------------------------------- */

/* "NAME=value" strings, NULL-terminated, fit for td_proc_options.extra_env: LD_PRELOAD (an existing one is kept after ours; a
 * sanitizer's library is put first when `program` or the tap needs it), TD_TAP_DIR, the folder of the sockets, and CUDA_INJECTION64_PATH, by which
 * CUDA's driver loads the tap (one that is set already, a profiler's, is replaced: both want the same place in CUPTI). */
struct td_tap_client_env { char *vars[6]; };

/* program: what will be started (argv[0]; looked up in PATH; a script's interpreter is followed), or NULL: unknown.
 * TD_ENOTFOUND: libtapedeck-tap.so is not beside the program (../lib or TD_TAP_LIBRARY); TD_EUNSUPPORTED: statically linked. */
int td_tap_client_env_make(const char *program, struct td_tap_client_env *out, struct td_error *err);
/* TD_TAP_GRAPHS: the tap watches the captures of CUDA graphs (--graphs), with so many MiB of the GPU's memory for copies; 0: nothing is added. */
int td_tap_client_env_graphs(struct td_tap_client_env *env, int64_t mib, struct td_error *err);
void td_tap_client_env_release(struct td_tap_client_env *env);
#define TD_TAP_CLIENT_GRAPHS_MIB 256
/* Lines for `eval`: export LD_PRELOAD='…' and so on, quoted. What `record --tap-env` prints. graphs_mib: of td_tap_client_env_graphs. */
int td_tap_client_env_print(int64_t graphs_mib, struct td_buf *out, struct td_error *err);

/* ---- ids of requests ----------------------------------------------------------------------------------------------- */

#define TD_TAP_CLIENT_NONCE 17 /* 16 hexadecimal digits and the NUL */
#define TD_TAP_CLIENT_ID 48

void td_tap_client_nonce(char out[TD_TAP_CLIENT_NONCE]);                                        /* random, one per recording */
void td_tap_client_request_id(const char *nonce, uint32_t stream, char out[TD_TAP_CLIENT_ID]);  /* "td-<nonce>-<stream>" */
/* The stream that an id of the server names: "td-<nonce>-<digits>" anywhere in it ("cmpl-td-…-7-0" is stream 7), else -1. */
int64_t td_tap_client_request_stream(const char *nonce, const char *id);

/* ---- links --------------------------------------------------------------------------------------------------------- */

struct td_tap_client;

struct td_tap_client_target {        /* the first that is set counts; a process means it and all its descendants */
    const char *socket;         /* --tap-socket PATH: one tap, wherever its process is */
    pid_t pid;                  /* the server that we started */
    int port;                   /* the process that listens on this TCP port of this machine */
    int wait_ms;                /* go on looking that long; 0: look once */
};

struct td_tap_client_options {       /* zeroed: the defaults */
    struct td_writer *writer;   /* required; borrowed until td_tap_client_close */
    const char *nonce;          /* of td_tap_client_request_id; NULL: every row is stream -1 */
    const char *checkpoint;     /* --checkpoint DIR or FILE.gguf, or the `root` of /v1/models; NULL or not there: --model of the command line,
                                   else layers have no names */
    bool weights_by_reference;  /* weights that match the checkpoint: a reference only. Default: bytes stored once, reference noted */
    bool no_code;               /* the code of recorded GPU kernels stays where it is */
    const char *wanted_layers;  /* --layers (layer_filter.h); NULL: all */
    volatile sig_atomic_t *keep; /* set to 1 by a signal handler: the flight recorder's ring is kept, and it is 0 again. NULL: never */
    int rings;                  /* calling threads per process; 0: 4 (of a GPU 2) */
    int64_t ring_bytes;         /* of each; 0: 16 MiB (of a GPU 64). An op of more than that (A and C together) is dropped, counted "ring" */
};

/* Find, greet, and share memory; the taps stay asleep. TD_ENOTFOUND: no tap there (the sentence says why and how to get one);
 * TD_EVERSION; TD_EPROTO; TD_EEXIST: another recorder is linked. With several processes one good link is enough. */
int td_tap_client_open(const struct td_tap_client_target *target, const struct td_tap_client_options *opt, struct td_tap_client **out, struct td_error *err);

enum td_tap_client_take { TD_TAP_CLIENT_OFF, TD_TAP_CLIENT_SAMPLE, TD_TAP_CLIENT_ALL };
#define TD_TAP_CLIENT_DEFAULT_PERCENT 10.0
#define TD_TAP_CLIENT_AUTO_TIME_PPM 5000    /* of --gemms auto, time_ppm: 0.5 % */
#define TD_TAP_CLIENT_DEFAULT_BUDGET (64LL << 20)

struct td_tap_client_mode {
    enum td_tap_client_take take;    /* ALL: every step, as far as the budget goes */
    double percent;             /* SAMPLE: share of steps, in windows of whole steps, and the first steps of every size; 0: 10 */
    int64_t budget_bytes_per_s; /* A and C per process; over it steps are dropped. 0: 64 MiB/s; -1: no limit. Weights, which go once
                                   an arm, have as much again beside it */
    uint32_t time_ppm;          /* SAMPLE: what copies may take of the time of the thread that launches on a GPU, in millionths; over it steps are
                                   dropped as over the budget. 0: no limit */
    uint32_t flight_mib;        /* the flight recorder's ring on the GPU (--flight); 0: none */
    bool all_kinds;             /* every kind of op that a front end of the tap sees (--all-ops), not matrix products only */
};

/* Arm every link. Steps that begin from now on are taken. May be called again with another mode. TD_OK when at least one process
 * is armed. TD_TAP_CLIENT_OFF is td_tap_client_disarm. */
int td_tap_client_arm(struct td_tap_client *l, const struct td_tap_client_mode *mode, struct td_error *err);
/* Put the taps to sleep, then wait (at most 10 s) until what they sent is in the writer. Safe when a server is gone. */
int td_tap_client_disarm(struct td_tap_client *l, struct td_error *err);
/* Name the rows of steps that came without (rows.h), from the requests that there were; until then these steps are not in the fixture. Once, when disarmed. */
void td_tap_client_name_rows(struct td_tap_client *l, struct td_rows_request *requests, size_t n);
/* Disarm if need be, write what is left, unlink. The first failure of the whole life is returned. NULL is allowed. */
int td_tap_client_close(struct td_tap_client *l, struct td_error *err);

/* An answer collapsed: the flight recorder's ring is kept. False: there is none, or it is being kept already. From the caller's thread. */
bool td_tap_client_keep(struct td_tap_client *l);
/* A sentence on the recorded op, of all that came so far, whose output was the first that is not finite or all zero. With a flight recorder only.
 * False: there is none. */
bool td_tap_client_first_bad(struct td_tap_client *l, char *to, size_t n);
/* What is to be said of --layers: items that no layer's name fitted, ops without a name. False: nothing. */
bool td_tap_client_layers_said(struct td_tap_client *l, char *to, size_t n);

/* What there is now. Thread-safe. */
struct td_tap_client_state {
    int processes, alive;       /* linked at open; still there */
    bool armed;
    int64_t ops_kept, ops_dropped, steps_kept;
    /* of a GPU, while armed; all 0 without one */
    int64_t launches;           /* of any kernel */
    int64_t gemms, gemms_other; /* of kernels that the tap reads; of others that are matrix products by their names */
    int64_t graphs, graphs_read; /* of CUDA graphs; of those whose capture was watched: what is launched in the others is not seen */
    int64_t ops_graph, ops_ring; /* of ops_dropped: in graphs; without room on their way */
    int64_t rested_ms;          /* of all processes together: nothing was watched, between windows of a sample */
    char other[80];             /* the most launched of gemms_other: a short name (kernel_names.h) */
};
void td_tap_client_state(struct td_tap_client *l, struct td_tap_client_state *out);

/* Write section "tap" of the manifest: present, protocol, pid, library, build, mode, processes[] … l NULL: present false and
 * the reason. Call it once links are open, and again after the last arm (mode). */
void td_tap_client_facts(struct td_tap_client *l, struct td_writer *w, const char *reason);

#endif
