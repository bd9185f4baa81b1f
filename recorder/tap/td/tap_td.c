/* tap_td.c - the front end of libtdkernels.so (kernels/abi/td_gptq.h): td_gptq_gemm and td_step.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Asleep, a call costs one load, one predicted branch and one jump. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#include "recorder/tap/core/tap.h"

typedef int gemm_fn(const struct td_gptq_gemm_args *);
typedef void step_fn(const struct td_step_args *);

static struct tap_symbol gemm = {.name = "td_gptq_gemm"}, step = {.name = "td_step"};

/* Non-NULL: asleep, and this is the real function. NULL: cold, armed, or the real one depends on the caller. */
static _Atomic(gemm_fn *) asleep_gemm;
static _Atomic(step_fn *) asleep_step;
static _Atomic(void *) any_gemm;      /* the first one found, for describe() */

static gemm_fn *keep_gemm(void *fn)
{
    if (fn && !atomic_load_explicit(&any_gemm, memory_order_relaxed))
        atomic_store_explicit(&any_gemm, fn, memory_order_release);
    return (gemm_fn *)fn;
}

static void awake(bool yes)
{
    atomic_store(&asleep_step, yes ? NULL : (step_fn *)tap_real_shared(&step));
    atomic_store(&asleep_gemm, yes ? NULL : keep_gemm(tap_real_shared(&gemm)));
}

/* ---- one call ------------------------------------------------------------------------------------------------------ */

/* What the real function would refuse, or what cannot be copied for want of sense, is passed on and counted as failed. */
static bool sane_gemm(const struct td_gptq_gemm_args *g)
{
    int pack;

    if (!g || g->struct_size < sizeof *g || (g->bits != 4 && g->bits != 8))
        return false;
    pack = 32 / g->bits;
    return g->m >= 0 && g->n > 0 && g->k > 0 && g->group_size > 0 && g->group_size <= g->k && g->k % g->group_size == 0 && g->k % pack == 0 &&
           g->n % pack == 0 && (!g->m || (g->a && g->c)) && g->qweight && g->qzeros && g->scales && g->lda >= g->k && g->ldc >= g->n;
}

static void set_matrix(struct tap_operand *o, const char *role, const char *dtype, const void *data, int64_t rows, int64_t cols, uint64_t elem)
{
    o->role = role;
    o->dtype = dtype;
    o->ndim = 2;
    o->shape[0] = rows, o->shape[1] = cols;
    o->strides[0] = cols, o->strides[1] = 1;
    o->data = data ? data : "";       /* no rows, no address: not opaque */
    o->bytes = (uint64_t)rows * (uint64_t)cols * elem;
    o->row_bytes = o->pitch = o->address = 0;
}

static void set_rows(struct tap_operand *o, uint64_t cols, uint64_t ld)
{
    o->row_bytes = cols * 2;
    o->pitch = ld * 2;
}

static void set_weights(struct tap_call *call, const struct td_gptq_gemm_args *g)
{
    int64_t groups = g->k / g->group_size;

    set_matrix(&call->w[0], "qweight", "I32", g->qweight, (int64_t)g->k * g->bits / 32, g->n, 4);
    set_matrix(&call->w[1], "qzeros", "I32", g->qzeros, groups, (int64_t)g->n * g->bits / 32, 4);
    set_matrix(&call->w[2], "scales", "F16", g->scales, groups, g->n, 2);
    call->n_w = 3;
    if (g->g_idx) {
        set_matrix(&call->w[3], "g_idx", "I32", g->g_idx, g->k, 1, 4);
        call->w[3].ndim = 1;
        call->n_w = 4;
    }
}

static void set_attrs(struct tap_call *call, const struct td_gptq_gemm_args *g)
{
    const struct td_attr_view all[] = {
        {"m", g->m}, {"n", g->n}, {"k", g->k}, {"bits", g->bits}, {"group_size", g->group_size}, {"zero_offset", g->zero_offset},
        {"act_order", g->g_idx != NULL}, {"flags", g->flags}, {"lda", g->lda}, {"ldc", g->ldc}};
    size_t i;

    for (i = 0; i < sizeof all / sizeof *all; i++)
        call->attrs[i] = all[i];
    call->n_attrs = (int)i;
}

static void describe_gemm(struct tap_call *call, const struct td_gptq_gemm_args *g)
{
    call->kind = "gptq_gemm";
    call->symbol = "td_gptq_gemm";
    call->layout = "checkpoint";
    call->rounding = "none";
    call->name = NULL;
    call->print = NULL;
    call->weights = 0;
    call->launches = NULL;
    call->n_launches = 0;
    call->flight = TAP_FLIGHT_NOT;
    call->rows = g->m;
    set_attrs(call, g);
    set_weights(call, g);
    set_matrix(&call->in[0], "a", "F16", g->a, g->m, g->k, 2);
    set_rows(&call->in[0], (uint64_t)g->k, (uint64_t)g->lda);
    call->n_in = 1;
    set_matrix(&call->out, "c", "F16", g->c, g->m, g->n, 2);
    set_rows(&call->out, (uint64_t)g->n, (uint64_t)g->ldc);
}

static int armed_gemm(const struct td_gptq_gemm_args *g, gemm_fn *real)
{
    struct tap_taking t;
    struct tap_call call;
    bool sane = sane_gemm(g);
    int status;

    if (sane && !tap_take_wanted()) {
        tap_take_skip(1, ((uint64_t)g->m * (uint64_t)g->k + (uint64_t)g->m * (uint64_t)g->n) * 2);
        return real(g);
    }
    if (sane)
        describe_gemm(&call, g);
    if (!tap_take_begin(&t, sane ? &call : NULL))
        return real(g);
    status = real(g);
    tap_take_end(&t, status == TD_KERNEL_OK, tap_now() - t.t0_ns);
    return status;
}

/* ---- the functions that the server calls --------------------------------------------------------------------------- */

/* Cold, armed, or a real function that depends on the caller. */
static __attribute__((noinline)) int awake_gemm(const struct td_gptq_gemm_args *args, const void *caller)
{
    int e = errno;
    gemm_fn *real = keep_gemm(tap_real_find(&gemm, caller));

    tap_take_note();
    errno = e;
    if (!real)
        return TD_KERNEL_EUNSUPPORTED;
    return tap_armed() ? armed_gemm(args, real) : real(args);
}

static __attribute__((noinline)) void awake_step(const struct td_step_args *args, const void *caller)
{
    int e = errno;
    step_fn *real = (step_fn *)tap_real_find(&step, caller);

    tap_take_note();
    if (tap_armed())
        tap_take_step(args);
    errno = e;
    if (real)
        real(args);
}

TAP_EXPORT int td_gptq_gemm(const struct td_gptq_gemm_args *args)
{
    gemm_fn *real = atomic_load_explicit(&asleep_gemm, memory_order_relaxed);

    if (TAP_LIKELY(real))
        return real(args);
    return awake_gemm(args, __builtin_return_address(0));
}

TAP_EXPORT void td_step(const struct td_step_args *args)
{
    step_fn *real = atomic_load_explicit(&asleep_step, memory_order_relaxed);

    tap_take_note_step();
    if (TAP_LIKELY(real))
        real(args);
    else
        awake_step(args, __builtin_return_address(0));
}

/* ---- for the core -------------------------------------------------------------------------------------------------- */

static bool describe(char *library, char *build, size_t n)
{
    void *fn = atomic_load_explicit(&any_gemm, memory_order_acquire), *handle;
    const char *(*build_of)(void);

    library[0] = build[0] = '\0';
    if (!fn)
        return false;
    handle = tap_real_library(fn, library, n);
    build_of = (const char *(*)(void))dlsym(handle ? handle : RTLD_DEFAULT, "td_kernels_build");
    if (build_of) {
        const char *text = build_of();

        snprintf(build, n, "%s", text ? text : "");
    }
    if (handle)
        dlclose(handle);
    return true;
}

const struct tap_front tap_front_td = {.name = "td", .awake = awake, .describe = describe};
