/* provider.h - what can run an op: a reference, a CPU kernel of ours, a build's library, kernels on a GPU.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a run:  open -> supports -> prepare -> run, run, ... -> fetch -> release -> close.
 * `prepare` may pack weights and allocate; `run` is what is timed, and does nothing but compute.
 * A provider never judges: it fills c, and the judge (replayer) compares. Providers run in a child process of the
 * replayer, so a provider may crash or hang without harm; it must not fork, and must not write to stdout. */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_H
#define TD_KERNELS_PROVIDERS_PROVIDER_H

#include "kernels/ops/op.h"

struct td_provider {
    const char *name;   /* "ref", "cpu", "lib", "ggml", "cuda", "hip" */
    /* arg: what the user named (a library's path), or NULL. On success *state is owned until close. */
    int (*open)(const char *arg, void **state, struct td_error *err);
    /* NULL = can run it; else the reason in one sentence, static or owned by state until the next call. */
    const char *(*supports)(void *state, const struct td_op_call *op);
    /* op and its tensors stay valid and in place until release; op->out.data is the memory to write to. */
    int (*prepare)(void *state, const struct td_op_call *op, void **prepared, struct td_error *err);
    int (*run)(void *state, void *prepared, struct td_error *err);
    /* Bring the result into op->out.data (host memory) in the recorded layout; a no-op for CPU providers. */
    int (*fetch)(void *state, void *prepared, struct td_error *err);
    void (*release)(void *state, void *prepared);
    void (*close)(void *state);
    /* The rounding that this build applies to the activations of op ("q8_1"), where it is not what op->act_rounding says: the
     * build's output is then judged against that R1. NULL, or a result of NULL or "": the op's own. Static, or owned by state. */
    const char *(*rounding)(void *state, const struct td_op_call *op);
    /* What the build says of itself in one line, "" for nothing; NULL: it has no words. Owned by state. */
    const char *(*words)(void *state);

    /* The rest is for providers whose memory or clock is not the process's own (a GPU). Each may be NULL. */
    /* op->out.data was filled anew: what the next run leaves alone must come back as it is now. Called before each run whose output is looked at. */
    int (*refill)(void *state, void *prepared, struct td_error *err);
    /* ns of so many runs together, by the provider's own clock; cold: each finds its caches empty. NULL: the caller's clock around run. */
    int (*time)(void *state, void *prepared, uint32_t runs, bool cold, int64_t *ns, struct td_error *err);
    /* "sm_mhz mem_mhz temp_c power_mw reasons" of the device as it is now, five integers (gpu/nvml.h; -1: not known), or why nothing is known. */
    void (*condition)(void *state, char *out, size_t size);
    /* Is the kernel that runs known to give other bits each time, right as it is (it adds halves atomically)? */
    bool (*varies)(const void *state, const void *prepared);
    /* After an error: nothing can run in this process any more. */
    bool (*is_dead)(const void *state);
    /* Nothing is prepared. For timing, instead of a new process where such a one costs seconds: code and tensors of the next prepare() must lie elsewhere
     * than those of the renewals before, back to the last prepare() without one. NULL: a new process it is. */
    void (*renew)(void *state);
};

#endif
