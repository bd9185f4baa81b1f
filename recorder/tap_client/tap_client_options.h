/* tap_client_options.h - what a recording asks of the taps in a server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_TAP_CLIENT_OPTIONS_H
#define TD_RECORDER_TAP_CLIENT_TAP_CLIENT_OPTIONS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct td_writer;

/* Where to look for taps. The first member that is set counts; a process stands for itself and all
 * its descendants. */
struct td_tap_client_target {
    const char *socket;         /* --tap-socket PATH: this one tap, wherever its process is */
    pid_t pid;                  /* the server that we started */
    int port;                   /* the process that listens on this TCP port of this machine */
    int wait_ms;                /* keep looking for so long; 0: look once */
};

/* Zeroed: the defaults. */
struct td_tap_client_options {
    struct td_writer *writer;   /* required; borrowed until td_tap_client_close() */
    const char *nonce;          /* of request_ids.h; NULL: every row is stream -1, unless: */
    bool server_ids;            /* rows are found by the server's own ids, td_tap_client_add_answer(); and
                                   what is inferred is never guessed (step_rows.h) */
    int64_t clock_shift_ns;     /* added to the times of ops and steps: exchanges have another clock */
    const char *checkpoint;     /* --checkpoint DIR or FILE.gguf, or `root` of /v1/models. NULL, or
                                   no such path: --model of the server's command line; without that,
                                   layers have no names */
    bool weights_by_reference;  /* weights that match the checkpoint: store a reference only.
                                   Default: the bytes, once, as well */
    bool no_code;               /* do not store the code of the recorded GPU kernels */
    const char *rows; size_t n_rows; /* --ops: what the user says of operators (checked text); NULL:
                                        nothing */
    const char *wanted_layers;  /* --layers (layer_filter.h); NULL: all */
    volatile sig_atomic_t *dump_asked; /* a signal handler sets it to 1: dump the flight recorder's
                                          ring; reset to 0. NULL: never */
    const volatile sig_atomic_t *stop; /* a signal handler sets it to other than 0: what is left in the
                                          rings is read for a moment only. NULL: never */
    int64_t rest_ms;            /* how long what the taps left behind is read, all in all; 0:
                                   TD_TAP_CLIENT_REST_MS */
    int rings;                  /* calling threads per process; 0: 4, of a GPU 2 */
    bool every_step;            /* no op may be missed (--gemms all): a GPU gets a larger ring */
    int64_t ring_bytes;         /* of each ring; 0: 16 MiB, of a GPU 64, 256 with every_step. A
                                   larger op (A and C together) is dropped, counted "ring". All
                                   rings together take at most half of what --max-memory allows */
};

#define TD_TAP_CLIENT_REST_MS 60000  /* full rings, a slow disk: 2 x 256 MiB at 9 MB/s */

enum td_tap_client_steps { TD_TAP_CLIENT_OFF, TD_TAP_CLIENT_SAMPLE, TD_TAP_CLIENT_ALL };
#define TD_TAP_CLIENT_DEFAULT_PERCENT 10.0
#define TD_TAP_CLIENT_AUTO_TIME_PPM 5000    /* time_ppm of --gemms auto: 0.5 % */
#define TD_TAP_CLIENT_DEFAULT_BUDGET (64LL << 20)

/* Which steps are recorded while the taps are armed. */
struct td_tap_client_mode {
    enum td_tap_client_steps steps; /* ALL: every step, as far as the budget goes */
    double percent;             /* SAMPLE: share of steps, in windows of consecutive steps, and the
                                   first steps of every size; 0: 10 */
    int64_t budget_bytes_per_s; /* bytes of A and C per process; steps above it are dropped. 0: 64
                                   MiB/s; -1: no limit. Weights, which are sent once per arm, have
                                   as much again beside it */
    uint32_t time_ppm;          /* SAMPLE, GPU: limit on copying, in parts per million of the
                                   launching thread's time; steps above it are dropped, as those
                                   above the budget are. 0: no limit */
    uint32_t flight_mib;        /* the flight recorder's ring on the GPU (--flight); 0: none */
    bool no_launches;           /* NVIDIA: do not subscribe to CUPTI (--launches off); operators and
                                   calls of libraries are recorded all the same */
    bool all_kinds;             /* every kind of op that a front of the tap sees (--all-ops), not
                                   only matrix products */
};

/* How long a GPU was at work in its kernels in a window in which nothing was recorded or timed. */
struct td_tap_client_gpu_time {
    bool asked;                 /* a window was asked for */
    char why[320];              /* why a process has none; "": all have */
    int64_t launches, ns, window_ns; /* of all kernels; how long the window was open */
    int64_t lost;               /* launches without a time */
    int64_t recorded_ns;        /* of ns: in kernels whose name only recorded ops launch */
    int64_t attention_ns;       /* in others that are attention by their names */
    char unread[300];           /* kernels that multiply by their names and that no recorded op
                                   launches, with their shares: "fused_moe_kernel 3.1 %, ..." */
    char unknown[300];          /* the same of those of which it is not known */
};

/* Counts of the recording so far. */
struct td_tap_client_state {
    int processes, alive;       /* connected at open; still there */
    bool armed;
    int64_t ops_kept, ops_dropped, steps_kept;
    int links_lost;             /* processes that ended or fell asleep while linked, or that were never
                                   linked: their ops are missing, and nobody knows how many */
    int rings_broken;           /* that are not read any further: what came after is lost, and not counted */
    /* Of a GPU, while armed; all 0 without one: */
    bool no_launches;           /* they were not watched (--launches off) */
    int64_t launches;           /* of any kernel */
    int64_t gemms, gemms_other; /* of kernels that the tap reads; of others that are matrix products
                                   by their names */
    int64_t graphs, graphs_read; /* launches of CUDA graphs; of graphs whose capture was watched.
                                    The rest is not seen */
    int64_t twins;              /* of CUDA graphs, that were made */
    int64_t graphs_no_twin;     /* launches of graphs of which no twin can be made */
    int64_t graphs_no_room;     /* launches of graphs that had no twin, for want of memory */
    int64_t ops_graph, ops_ring; /* of ops_dropped: in graphs; for want of room on their way */
    int64_t ops_sampling, ops_budget, ops_weights, ops_layers; /* of ops_dropped: outside the sample;
                                   beyond the budget; their weights were still on their way; of
                                   layers that are not wanted */
    int64_t ops_rotation;       /* of ops_dropped: left out of a graph by rotation */
    int64_t ops_crowded;        /* of ops_dropped: of more weights than are kept */
    int64_t ops_lost;           /* of ops_dropped: the tap says it sent them, and they did not come */
    int64_t ops_beside;         /* of ops_kept: of operators that stand beside products */
    bool all_kinds;             /* the mode said so */
    int64_t digests, digest_bytes; /* of ops_kept: with a digest of their output, and how long these outputs are */
    int64_t rehearsed;          /* ops of the rehearsal */
    int64_t rows_forgotten;     /* rows whose ids are too long, or too many, to be kept (server_ids.h) */
    bool rehearsal_full;        /* not all of these were remembered, for want of room */
    int64_t ops_layout_unknown; /* of ops_kept: their weights lie as the server had them */
    char unknown_layout[200];   /* the first such layout, and why it could not be undone */
    char no_layer_names[400];   /* why no op can have a layer's name; "": a checkpoint is open */
    int64_t rested_ms;          /* all processes together: time between windows of a sample, in
                                   which nothing was watched */
    int64_t operators, operator_calls; /* of torch, those that are not recorded: how many were
                                          called, and how often all were */
    char most_called[128];      /* "_C::machete_mm": of these operators the one called most */
    struct td_tap_client_gpu_time gpu_time;
    char other[80];             /* the most launched of gemms_other: a short name
                                   (kernel_names.h) */
};

#endif
