/* build_process.h - a build in a process of its own, seen from the replayer: start it, run ops, survive its crashes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_PROCESS_H
#define TD_REPLAYER_BUILD_PROCESS_H

#include "common/proc.h"
#include "replayer/child_protocol.h"

struct td_build_process_options {
    const char *name;       /* "candidate", "baseline": for messages */
    const char *provider;   /* "lib", "cpu", "ref", "ggml", "vllm", "cuda", "hip" */
    const char *arg;        /* path of the build, or NULL */
    const char *program;    /* what is executed with "--child FD"; NULL: replay-child beside this program */
    const char *script;     /* first argument of the program; NULL: none */
    char *const *env;       /* "NAME=value", NULL-terminated: added to its environment; NULL: nothing */
    int deadline_ms;        /* for a single stage of a run (load, prepare, one repeat) */
    int prepare_ms;         /* for prepare, where it may take longer than that; 0: deadline_ms */
    bool guard;
};

struct td_build_process {
    struct td_build_process_options opt;
    struct td_proc proc;
    int sock, arena_fd;
    void *arena; uint64_t arena_size;
    bool arena_sent;
    uint32_t seq;
    int starts, crashes, hangs;
    char build[256];        /* the build's own words, "" when it says nothing */
    char condition[520];    /* of its device before and after the last td_build_process_time(), a line each (provider.h); "": it says nothing */
};

enum td_run_status { TD_RUN_OK, TD_RUN_UNSUPPORTED, TD_RUN_FAILED, TD_RUN_CRASHED, TD_RUN_HUNG };
const char *td_run_status_name(enum td_run_status s); /* "ok", "unsupported" ... as in docs/format.md */

struct td_run_result {
    enum td_run_status status;
    char reason[480];       /* "" when ok */
    char rounding[16];      /* of its activations, as the build says; "": as the op says */
    bool varies;            /* the kernel is known to give other bits each time */
    int repeats;            /* images that came back; may be > 0 when failed */
    void *images[TD_PROTO_MAX_REPEATS]; /* each size_bytes of the op's output, in `memory` */
    void *memory;
};
void td_run_result_release(struct td_run_result *r);

/* Start the child and open its provider. What the provider says goes up: TD_ENOTFOUND, TD_EUNSUPPORTED ...; TD_ECRASH when
 * the child dies while it loads the build. */
int td_build_process_start(struct td_build_process *r, const struct td_build_process_options *opt,
                           struct td_error *err);
void td_build_process_stop(struct td_build_process *r); /* zeroed struct is allowed */

/* Let the child start anew, in new memory: a new process image, or what its provider has in its place (provider.h, renew). TD_ECRASH and others as td_build_process_start(); nothing to do when it is gone. */
int td_build_process_restart(struct td_build_process *r, struct td_error *err);

/* Run the op `repeats` times on freshly poisoned outputs. A crash or a hang is a result; the child is started again by the
 * next call. < 0 only when the replayer itself cannot go on (no memory, the child cannot be started again). */
int td_build_process_run(struct td_build_process *r, const struct td_op_call *op, int repeats,
                         struct td_run_result *res, struct td_error *err);

/* For timing: keep the op prepared, time it, let it go. TD_ECRASH, TD_EUNSUPPORTED and others: no timing for this op. */
int td_build_process_prepare(struct td_build_process *r, const struct td_op_call *op,
                             struct td_error *err);
int td_build_process_time(struct td_build_process *r, uint32_t iterations, bool cold, int64_t *ns,
                          struct td_error *err);
int td_build_process_forget(struct td_build_process *r, struct td_error *err);

#endif
