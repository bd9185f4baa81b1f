/* provider.h - what can run an op: a reference, a CPU kernel of ours, a build's library, kernels on a GPU.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a run:  open -> supports -> prepare -> run, run, ... -> fetch -> release -> close.
 * `prepare` may pack weights and allocate; `run` is what is timed, and does nothing but compute.
 * A provider never judges: it fills C, and the judge (replayer) compares. Providers run in a child
 * process of the replayer, so a provider may crash or hang without harm; it must not fork, and must
 * not write to stdout. One thread calls.
 *
 * A provider is a file provider_<name>.c and a line in providers.def. */
#ifndef TD_KERNELS_PROVIDERS_PROVIDER_H
#define TD_KERNELS_PROVIDERS_PROVIDER_H

#include "kernels/ops/op.h"

struct td_provider {
    const char *name;   /* as in providers.def */
    /* arg : what the user named (a library's path, options), or NULL. On success *state is the
     * caller's until close. */
    int (*open)(const char *arg, void **state, struct td_error *err);
    /* NULL: it can run op. Else why not, in one sentence, static or owned by state until the next call. */
    const char *(*supports)(void *state, const struct td_op_call *op);
    /* op and its tensors stay valid and in place until release; op->out.data is the memory for C. */
    int (*prepare)(void *state, const struct td_op_call *op, void **prepared, struct td_error *err);
    /* Compute once, to the end. May be called again and again. */
    int (*run)(void *state, void *prepared, struct td_error *err);
    /* Bring the result into op->out.data (host memory) in the recorded layout; a no-op for providers
     * that write there themselves. */
    int (*fetch)(void *state, void *prepared, struct td_error *err);
    void (*release)(void *state, void *prepared);
    void (*close)(void *state);
    /* The rounding that this build applies to op's activations ("q8_1"), where it differs from
     * op->act_rounding: the build's output is then judged against that R1. The function, or its
     * result, may be NULL (or ""): the op's own. Static, or owned by state. */
    const char *(*rounding)(void *state, const struct td_op_call *op);
    /* How the build describes itself, in one line; "": it does not. NULL: no such function. Owned by
     * state. */
    const char *(*words)(void *state);

    /* The rest is for providers whose memory or clock is not the process's own (a GPU). Each may be
     * NULL. */

    /* op->out.data was filled anew: elements that the next run leaves alone must come back as they are
     * now. Called before each run whose output is looked at. */
    int (*refill)(void *state, void *prepared, struct td_error *err);
    /* *ns is the time of `runs` runs together, by the provider's own clock; cold: each run finds the
     * caches empty. NULL: the caller's clock around run. */
    int (*time)(void *state, void *prepared, uint32_t runs, bool cold, int64_t *ns, struct td_error *err);
    /* The device's condition now: "sm_mhz mem_mhz temp_c power_mw reasons", five integers (gpu/nvml.h;
     * -1: not known), or a sentence why nothing is known. */
    void (*condition)(void *state, char *out, size_t size);
    /* Does the kernel that runs give other bits each time though it is right (it adds halves
     * atomically)? */
    bool (*varies)(const void *state, const void *prepared);
    /* How the kernel keeps its sums in halves, packed (kernels/ops/half_sums.h); 0: its sums are kept in float32. NULL: 0. */
    int (*half_sums)(const void *state, const void *prepared);
    /* After an error: can nothing run in this process any more? */
    bool (*is_dead)(const void *state);
};

#endif
