/* build_process.h - a build in a process of its own, seen from the replayer: start it, run ops, survive its crashes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_BUILD_PROCESS_H
#define TD_REPLAYER_BUILD_PROCESS_H

#include <string.h>

#include "common/proc.h"
#include "replayer/child_output.h"
#include "replayer/child_protocol.h"

struct td_build_process_options {
    const char *name;       /* "candidate", "baseline": for messages */
    const char *provider;   /* "lib", "cpu", "ref", "ggml", "torch", "cuda", "hip" */
    const char *arg;        /* path of the build, or NULL */
    const char *program;    /* executed with "--child FD"; NULL: replay-child beside this program */
    const char *script;     /* first argument of the program; NULL: none */
    char *const *env;       /* "NAME=value", NULL-terminated, added to its environment; or NULL */
    const char *rows;       /* a variable of --ops, added too (own_json.h); NULL: none */
    int deadline_ms;        /* longest time in one stage of a run (load, prepare, one repeat) */
    int prepare_ms;         /* longest time in prepare, where that is more; 0: deadline_ms */
    bool guard;             /* tensors end at a page that nobody may touch */
    const volatile sig_atomic_t *stop; /* set by a signal: the child is ended in the middle of a run; NULL: it never is */
};

struct td_build_process {
    struct td_build_process_options opt;
    struct td_proc proc;
    struct td_child_output output;
    int sock, arena_fd;     /* -1: none */
    void *arena; uint64_t arena_size;
    bool arena_sent;        /* the running child has this arena */
    bool left;              /* the child was told to end */
    struct td_proto_lies lies; /* what lies in the arena, as this side wrote it */
    uint64_t arena_used;    /* bytes of it that were ever touched */
    uint64_t held;          /* what the running child holds for tensors */
    uint64_t may_hold;      /* what it may hold for the op that is in the arena */
    int64_t booked;         /* of all this, counted as this program's memory (common/memory.h) */
    uint32_t seq;
    int starts, crashes, hangs;
    bool on_gpu;            /* TD_PROTO_ON_GPU */
    char build[256];        /* the build's description of itself, "" when it gives none */
    char condition[520];    /* of its device before and after the last td_build_process_time(), a
                               line each (provider.h, condition); "": not reported */
};

/* TD_RUN_BROKEN: the run failed twice without having come to the build's code (a socket that fails), or for want of
 * memory. */
enum td_run_status { TD_RUN_OK, TD_RUN_UNSUPPORTED, TD_RUN_FAILED, TD_RUN_CRASHED, TD_RUN_HUNG, TD_RUN_BROKEN };
const char *td_run_status_name(enum td_run_status s); /* "ok", "unsupported" ... as in docs/format.md */

struct td_run_result {
    enum td_run_status status;
    char reason[480];       /* "" when ok; of a crash with what the process wrote last */
    uint32_t reached;       /* enum td_proto_stage: the last stage that was begun */
    char rounding[TD_OP_MAX_ROUNDING]; /* of the activations, as the build reports it; "": as the op has it */
    bool no_memory;         /* it is TD_RUN_BROKEN for want of memory, be it that others hold it */
    bool varies;            /* the kernel is known to give other bits each time */
    int half_sums;          /* how the kernel keeps its sums in halves, packed (kernels/ops/half_sums.h); 0: it keeps
                               them in float32, or the build does not say */
    int repeats;            /* images that came back; may be > 0 when failed */
    void *images[TD_PROTO_MAX_REPEATS]; /* each size_bytes of the op's output, in `memory`; equal ones may be one */
    void *memory;
};
void td_run_result_release(struct td_run_result *r);

/* Start the child, which opens its provider from now on. */
int td_build_process_begin(struct td_build_process *r, const struct td_build_process_options *opt,
                           struct td_error *err);
/* Wait until the provider is open. Errors of the provider go up (TD_ENOTFOUND, TD_EUNSUPPORTED
 * ...); TD_ECRASH: the child died while it loaded the build, or hung. */
int td_build_process_await(struct td_build_process *r, struct td_error *err);
/* Is it of a GPU, where a start takes long and makes a new process? Of provider torch it takes longer, and makes none (on_gpu). */
static inline bool td_build_process_is_of_gpu(const struct td_build_process *r)
{
    return !strcmp(r->opt.provider, "cuda") || !strcmp(r->opt.provider, "hip");
}
/* Have the child end, and do not wait for that: no op is run any more. */
void td_build_process_leave(struct td_build_process *r);
/* End the child and free what r holds. A zeroed struct is allowed. */
void td_build_process_stop(struct td_build_process *r);

/* Let the child begin anew in fresh memory: a new process image, or what a child in Python does (child_protocol.h, RESTART). One that
 * is gone is started again. Errors as of td_build_process_await(). */
int td_build_process_restart(struct td_build_process *r, struct td_error *err);

/* Run the op `repeats` times, each time on a freshly poisoned output. A crash or a hang is a result
 * (res->status); the next call starts the child again. A run that fails before it comes to the build's code is tried
 * once more in a new child, and then is TD_RUN_BROKEN; so is a run for which memory was lacking, whoever says so, and an
 * op that is larger than the memory allowed (--max-memory). Returns < 0 only when the replayer cannot go
 * on: no memory, or the child cannot be started again, as where its GPU was lost: that is looked at at once. */
int td_build_process_run(struct td_build_process *r, const struct td_op_call *op, int repeats,
                         struct td_run_result *res, struct td_error *err);

/* Timing: prepare the op, time `iterations` runs (*ns: of all together), forget it. cold: caches are
 * emptied before each run. TD_ECRASH, TD_EUNSUPPORTED and others: this op cannot be timed. */
int td_build_process_prepare(struct td_build_process *r, const struct td_op_call *op,
                             struct td_error *err);
int td_build_process_time(struct td_build_process *r, uint32_t iterations, bool cold, int64_t *ns,
                          struct td_error *err);
int td_build_process_forget(struct td_build_process *r, struct td_error *err);

#endif
