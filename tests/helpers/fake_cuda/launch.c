/* launch.c - the fake driver's launches. A launch copies the parameters at the call; the kernel
 * runs when its stream reaches it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that accesses unmapped memory ends with CUDA_ERROR_ILLEGAL_ADDRESS, and the context
 * stays broken, as on a device. */
#include "tests/helpers/fake_cuda/state.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- running --------------------------------------------------------------------------------- */

static _Thread_local sigjmp_buf *in_kernel;
static pthread_mutex_t handlers = PTHREAD_MUTEX_INITIALIZER;
static int n_running;
static struct sigaction before[2];
static const int faults[2] = {SIGSEGV, SIGBUS};

static void on_fault(int sig, siginfo_t *info, void *context)
{
    const struct sigaction *old = &before[sig == SIGBUS];

    if (in_kernel)
        siglongjmp(*in_kernel, 1);
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(sig, info, context);
    else
        signal(sig, SIG_DFL);
}

static void watch_faults(bool on)
{
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    int i;

    pthread_mutex_lock(&handlers);
    n_running += on ? 1 : -1;
    for (i = 0; i < 2; i++) {
        if (on && n_running == 1)
            sigaction(faults[i], &sa, &before[i]);
        else if (!on && n_running == 0)
            sigaction(faults[i], &before[i], NULL);
    }
    pthread_mutex_unlock(&handlers);
}

static int run_kernel(struct task *t)
{
    const struct fake_cuda_kernel *k = t->u.kernel.kernel;
    sigjmp_buf here;
    volatile int rc = fault_due("kernel");

    if (rc || !k->run)
        return rc;
    watch_faults(true);
    if (sigsetjmp(here, 1))
        rc = TD_CUDA_ILLEGAL_ADDRESS;
    else {
        in_kernel = &here;
        k->run(&t->u.kernel.launch, k->user);
    }
    in_kernel = NULL;
    watch_faults(false);
    return rc;
}

int kernel_run(struct task *t)
{
    fake_cuda_ran_fn *ran = atomic_load(&fake.ran);
    int rc = run_kernel(t);

    if (ran && !rc)
        ran(t->u.kernel.kernel->symbol);
    return rc;
}

/* ---- launching ------------------------------------------------------------------------------- */

/* The packed parameter block in `extra`; NULL: none. */
static const uint8_t *block_of(void **extra, size_t *bytes)
{
    const uint8_t *block = NULL;

    *bytes = 0;
    for (; extra && *extra; extra += 2) {
        if ((uintptr_t)*extra == TD_CUDA_PARAM_BUFFER_POINTER)
            block = extra[1];
        else if ((uintptr_t)*extra == TD_CUDA_PARAM_BUFFER_SIZE)
            *bytes = *(const size_t *)extra[1];
    }
    return block;
}

static struct task *make_task(const struct fake_cuda_kernel *k, void **params, void **extra)
{
    struct task *t = task_new(TASK_KERNEL);
    size_t block_bytes, bytes = 0;
    const uint8_t *block = block_of(extra, &block_bytes);
    int i;

    for (i = 0; i < k->n_params; i++)
        if (k->param[i].offset + k->param[i].size > bytes)
            bytes = k->param[i].offset + k->param[i].size;
    t->u.kernel.kernel = k;
    t->u.kernel.bytes = bytes;
    t->u.kernel.values = calloc(1, bytes + 1);
    for (i = 0; i < k->n_params; i++) {
        const void *from = params ? params[i] : block && k->param[i].offset + k->param[i].size <= block_bytes ? block + k->param[i].offset : NULL;

        t->u.kernel.params[i] = t->u.kernel.values + k->param[i].offset;
        if (!from) {
            task_free(t);
            return NULL;
        }
        memcpy(t->u.kernel.params[i], from, k->param[i].size);
    }
    return t;
}

struct task *kernel_task(const struct fake_cuda_kernel *k, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, void **params, void **extra)
{
    struct task *t = make_task(k, params, extra);

    if (!t)
        return NULL;
    t->u.kernel.launch = (struct fake_cuda_launch){.shared_bytes = shared_bytes, .params = t->u.kernel.params, .kernel = k};
    memcpy(t->u.kernel.launch.grid, grid, 3 * sizeof *grid);
    memcpy(t->u.kernel.launch.block, block, 3 * sizeof *block);
    return t;
}

static bool fits(const struct function *f, const struct td_cuda_launch_config *c)
{
    const uint64_t threads = (uint64_t)c->block[0] * c->block[1] * c->block[2];
    const int max = f->kernel->max_threads ? f->kernel->max_threads : 1024;

    return c->grid[0] && c->grid[1] && c->grid[2] && c->grid[0] < 1u << 31 && c->grid[1] < 65536 && c->grid[2] < 65536 && threads
        && threads <= (uint64_t)max && (int)c->shared_bytes <= f->dynamic_shared_max;
}

static int launch(const struct function *f, const struct td_cuda_launch_config *c, void **params, void **extra, bool per_thread)
{
    struct stream *s = stream_of(c->stream, per_thread);
    int rc = fault_due("launch");
    struct task *t;

    if (rc || (rc = lost_device(true)))
        return rc;
    if (!s || !f)
        return TD_CUDA_INVALID_HANDLE;
    if (!fits(f, c) || !(t = kernel_task(f->kernel, c->grid, c->block, c->shared_bytes, params, extra)))
        return TD_CUDA_INVALID_VALUE;
    count_call(f->kernel->symbol);
    t->function = f;
    return stream_issue(s, t);
}

/* All forms of a launch. params: the call's arguments as a CUPTI callback gets them. */
static int launch_call(const char *name, uint32_t cbid, const void *params_of_call, void *function, const struct td_cuda_launch_config *c, void **params,
                       void **extra, bool per_thread)
{
    const struct function *f = function;
    struct call_site site;
    int rc;

    hook_enter(&site, name, cbid, params_of_call, f ? f->kernel->symbol : NULL);
    rc = enter(name, NEED_CONTEXT);
    if (!rc)
        rc = launch(f, c, params, extra, per_thread);
    leave(rc);
    hook_exit(&site, rc);
    return rc;
}

struct launch_args { void *f; unsigned grid[3], block[3], shared; void *stream; void **params, **extra; };
struct launch_ex_args { const struct td_cuda_launch_config *config; void *f; void **params, **extra; };

#define ARGS {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, params, extra}
#define CONFIG {{gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, NULL, 0}

int cuLaunchKernel FAKE_CUDA_LAUNCH_ARGS
{
    const struct launch_args a = ARGS;
    const struct td_cuda_launch_config c = CONFIG;

    return launch_call("cuLaunchKernel", 307, &a, function, &c, params, extra, false);
}

int cuLaunchKernel_ptsz FAKE_CUDA_LAUNCH_ARGS
{
    const struct launch_args a = ARGS;
    const struct td_cuda_launch_config c = CONFIG;

    return launch_call("cuLaunchKernel_ptsz", 442, &a, function, &c, params, extra, true);
}

int cuLaunchKernelEx(const struct td_cuda_launch_config *config, void *function, void **params, void **extra)
{
    const struct launch_ex_args a = {config, function, params, extra};

    return launch_call("cuLaunchKernelEx", 652, &a, function, config, params, extra, false);
}

int cuLaunchKernelEx_ptsz(const struct td_cuda_launch_config *config, void *function, void **params, void **extra)
{
    const struct launch_ex_args a = {config, function, params, extra};

    return launch_call("cuLaunchKernelEx_ptsz", 653, &a, function, config, params, extra, true);
}

int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                              void **params)
{
    const struct launch_args a = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, params, NULL};
    const struct td_cuda_launch_config c = CONFIG;

    return launch_call("cuLaunchCooperativeKernel", 477, &a, function, &c, params, NULL, false);
}

int cuLaunchCooperativeKernel_ptsz(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                                   void **params)
{
    const struct launch_args a = {function, {gx, gy, gz}, {bx, by, bz}, shared_bytes, stream, params, NULL};
    const struct td_cuda_launch_config c = CONFIG;

    return launch_call("cuLaunchCooperativeKernel_ptsz", 478, &a, function, &c, params, NULL, true);
}
