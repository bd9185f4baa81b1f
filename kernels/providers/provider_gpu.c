/* provider_gpu.c - runs an op on a GPU with a kernel of a build: a library, a fat binary, a cubin,
 * a code object; no torch, no Python. SPDX-License-Identifier: Apache-2.0
 *
 * Providers cuda and hip are this file on two drivers (gpu/driver.h).
 *
 * A kind of op (struct td_gpu_kind) decides what runs an op: provider_gpu_gptq.c finds a kernel in
 * the build, provider_gpu_gemm.c asks the GPU's library. This file has the life of a run, its
 * output, its guards and its clock. prepare brings the weights into the layout that the kernel
 * reads, and all tensors to the GPU. run does what a server does for one op, and waits for it. time
 * does the same between two events of the stream, without waiting in between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/ops/half_sums.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/provider_gpu_blas.h"
#include "kernels/providers/provider_gpu_memory.h"
#include "kernels/providers/provider_gpu_stage.h"

#define GAP_FRONT 256
#define GAP_TAIL 4096
#define SWEEP_LEAST ((size_t)64 << 20)

/* ---- open ------------------------------------------------------------------------------------ */

static void gpu_close(void *state)
{
    struct td_gpu_state *s = state;

    if (!s)
        return;
    if (s->build)
        td_gpu_memory_free_left(s);
    td_gpu_stage_close(s);
    td_gpu_build_close(s->build);
    td_gpu_blas_close(s->blas);
    if (s->device && !s->driver->is_dead(s->device))
        s->driver->free(s->device, &s->sweep);
    s->driver->close(s->device);
    free(s);
}

/* A host library computes with the library of products, and a user may name it, so it belongs into the
 * words and is looked for when the provider opens. If it is missing, the first op that needs it reports
 * that. */
static void find_blas_early(struct td_gpu_state *s)
{
    if (s->facts.sm && (td_gpu_image_needed(td_gpu_build_image(s->build), "libcudart.so") || getenv("TD_CUBLAS_LIBRARY")))
        td_gpu_find_blas(s);
}

static int open_provider(const struct td_gpu_driver *driver, const char *choice, const char *arg,
                         void **state, struct td_error *err)
{
    const char *only = getenv(choice);
    struct td_gpu_state *s;
    int rc;

    *state = NULL;
    if (!arg || !*arg)
        return td_fail(err, TD_EINVAL,
                       "provider %s needs the path of a build: a library with GPU code, a .fatbin, "
                       "a .cubin or a .hsaco",
                       driver->name);
    if (!(s = calloc(1, sizeof *s)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    s->driver = driver;
    s->choice = choice;
    snprintf(s->only, sizeof s->only, "%s", only ? only : "");
    rc = s->driver->open(&s->device, false, &s->facts, err);
    if (!rc)
        rc = td_gpu_build_open(arg, s->driver, s->device, &s->facts, &s->build, err);
    if (rc) {
        gpu_close(s);
        return rc;
    }
    find_blas_early(s);
    snprintf(s->words, sizeof s->words, "%s on %.90s (%.40s, %.40s)%s%s, %s", driver->name,
             s->facts.name, s->facts.arch, s->facts.version, s->blas ? ", " : "",
             s->blas ? td_gpu_blas_words(s->blas) : "",
             td_gpu_image_what(td_gpu_build_image(s->build)));
    if (s->facts.ptx_off[0])
        snprintf(s->words + strlen(s->words), sizeof s->words - strlen(s->words),
                 "; PTX in it is compiled in every process: %s", s->facts.ptx_off);
    *state = s;
    return TD_OK;
}

static int cuda_open(const char *arg, void **state, struct td_error *err)
{
    return open_provider(&td_gpu_driver_cuda, "TD_CUDA_KERNEL", arg, state, err);
}

static int hip_open(const char *arg, void **state, struct td_error *err)
{
    return open_provider(&td_gpu_driver_hip, "TD_HIP_KERNEL", arg, state, err);
}

static const char *gpu_words(void *state)
{
    return ((struct td_gpu_state *)state)->words;
}

static bool gpu_is_dead(const void *state)
{
    const struct td_gpu_state *s = state;

    return s->driver->is_dead(s->device);
}

/* ---- what runs it ---------------------------------------------------------------------------- */

extern const struct td_gpu_kind td_gpu_kind_gptq, td_gpu_kind_gemm;

static const struct td_gpu_kind *const kinds[] = {&td_gpu_kind_gptq, &td_gpu_kind_gemm};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* Find the op's kind and have it choose what runs it: fills *p. NULL: it can be run; else why not. */
static const char *choose_kind(struct td_gpu_state *s, const struct td_op_call *op, struct td_gpu_prepared *p)
{
    size_t i, at;

    memset(p, 0, sizeof *p);
    p->op = op;
    for (i = 0; i < N_KINDS; i++)
        if (!strcmp(op->kind, kinds[i]->name)) {
            p->kind = kinds[i];
            return p->kind->choose(s, p);
        }
    at = (size_t)snprintf(s->why, sizeof s->why,
                          "ops of kind \"%s\" are not supported; provider %s runs", op->kind,
                          s->driver->name);
    for (i = 0; i < N_KINDS; i++)
        at += (size_t)snprintf(s->why + at, sizeof s->why - at, "%s %s", i ? "," : "", kinds[i]->name);
    if (td_gpu_symbol_is_operator(op->symbol))
        snprintf(s->why + at, sizeof s->why - at, ". To run %.60s, " TD_GPU_NAME_THE_VENV, op->symbol);
    return s->why;
}

static const char *gpu_supports(void *state, const struct td_op_call *op)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared p;

    return choose_kind(s, op, &p);
}

static const char *gpu_rounding(void *state, const struct td_op_call *op)
{
    struct td_gpu_prepared p;

    return choose_kind(state, op, &p) ? "none" : p.kind->rounding(&p);
}

static void gpu_release(void *state, void *prepared)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;

    if (p)
        td_gpu_memory_release(s, p);
    free(p);
}

/* Upload; once more where the device was so full that weights of earlier ops were given up. */
static int upload(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc;

    s->kept_is_lost = false;
    rc = p->kind->upload(s, p, err);
    if (rc != TD_ENOMEM || !s->kept_is_lost)
        return rc;
    for (int i = 0; i < TD_GPU_N_PLACES; i++)
        s->driver->free(s->device, &p->memory[i]);
    memset(p->memory, 0, sizeof p->memory);
    td_error_clear(err);
    return p->kind->upload(s, p, err);
}

static int gpu_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = malloc(sizeof *p);
    struct td_error own = {0};
    const char *no;

    *prepared = NULL;
    err = err ? err : &own;
    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_gpu_stage_begin(s);
    if ((no = choose_kind(s, op, p)))
        td_fail(err, TD_EUNSUPPORTED, "%s", no);
    if (no || upload(s, p, err)) {
        gpu_release(s, p);
        if (err->code == TD_ENOMEM)
            err->code = TD_EUNSUPPORTED; /* this machine has too little memory: no fault of the build */
        return err->code;
    }
    *prepared = p;
    return TD_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Bytes from row to row of C: in op->out, and on the GPU if it is dense there. */
static size_t stride_here(const struct td_gpu_prepared *p)
{
    return (size_t)p->op->out.strides[0] * td_dtype_size(p->op->out.dtype);
}

static size_t stride_there(const struct td_gpu_prepared *p)
{
    return (size_t)p->op->out.shape[1] * td_dtype_size(p->op->out.dtype);
}

static int gpu_refill(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    void *copy;
    int rc;

    if (p->kind->refill && (rc = p->kind->refill(s, p, err)))
        return rc;
    if (!p->c_dense)
        return td_gpu_stage_copy_in(s, p->memory[TD_GPU_AT_C].address, p->op->out.data, p->c_bytes, err);
    if (!(copy = malloc(p->c_bytes + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_gpu_copy_rows(copy, stride_there(p), p->op->out.data, stride_here(p), stride_there(p), p->op->out.shape[0]);
    rc = td_gpu_stage_copy_in(s, p->memory[TD_GPU_AT_C].address, copy, p->c_bytes, err);
    free(copy);
    return rc;
}

static bool gpu_varies(const void *state, const void *prepared)
{
    const struct td_gpu_prepared *p = prepared;

    (void)state;
    return p->kind->varies && p->kind->varies(p);
}

/* The kernels of vLLM's q_gemm.cu that add to C round their sum to half after BLOCK_KN_SIZE rows of W, and add it in
 * halves. */
static int gpu_half_sums(const void *state, const void *prepared)
{
    const struct td_gpu_prepared *p = prepared;

    return gpu_varies(state, prepared) ? td_half_sums_pack(TD_HALF_SUMS_EXLLAMA(td_op_attr(p->op, "bits", 4))) : 0;
}

/* The gaps around a guarded tensor, in the rest of its mapping, which are looked at. False: it has none, or a large one. */
static bool find_gaps(const struct td_gpu_memory *m, size_t *front, size_t *tail)
{
    const uint64_t end = m->reserved + m->mapped_bytes, before = m->address - m->reserved;

    *front = before < GAP_FRONT ? (size_t)before : GAP_FRONT;
    *tail = m->reserved ? (size_t)(end - m->address) - m->bytes : 0;
    return m->reserved && *tail <= GAP_TAIL;
}

/* Ask for all that gpu_fetch() looks at, so that one wait is for all of it. */
static int ask_for_results(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc = td_gpu_stage_ask(s, p->memory[TD_GPU_AT_C].address, p->c_bytes, &p->back[0], err);

    for (int i = 0; i < TD_GPU_N_PLACES && !rc; i++) {
        const struct td_gpu_memory *m = &p->memory[i];
        size_t front, tail;

        if (!find_gaps(m, &front, &tail))
            continue;
        rc = td_gpu_stage_ask(s, m->address - front, front, &p->back[1 + 2 * i], err);
        if (!rc)
            rc = td_gpu_stage_ask(s, m->address + m->bytes, tail, &p->back[2 + 2 * i], err);
    }
    return rc;
}

static int gpu_run(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    int rc = p->kind->enqueue(s, p, err);

    memset(p->back, 0, sizeof p->back);
    if (!rc)
        rc = ask_for_results(s, p, err);
    if (!rc)
        rc = s->driver->wait(s->device, err);
    return rc == TD_ECRASH && p->op->guard ? td_fail_at(err, "with guards behind its tensors") : rc;
}

/* Bytes of the GPU: those that the run brought, or a copy.
 *   copy : at least `bytes` bytes */
static const void *bring(struct td_gpu_state *s, const void *piece, void *copy, uint64_t from, size_t bytes, int *rc, struct td_error *err)
{
    if (piece)
        return piece;
    if (!*rc)
        *rc = s->driver->copy_out(s->device, copy, from, bytes, err);
    return copy;
}

/* Check that nothing was written around a guarded tensor, in the rest of its mapping. */
static int check_gaps(struct td_gpu_state *s, const struct td_gpu_prepared *p, enum td_gpu_place at, struct td_error *err)
{
    const struct td_gpu_memory *m = &p->memory[at];
    uint8_t copy[GAP_FRONT + GAP_TAIL];
    const uint8_t *before, *behind;
    size_t front, tail, i;
    int rc = TD_OK;

    if (!find_gaps(m, &front, &tail))
        return TD_OK;
    before = bring(s, p->back[1 + 2 * at], copy, m->address - front, front, &rc, err);
    behind = bring(s, p->back[2 + 2 * at], copy + front, m->address + m->bytes, tail, &rc, err);
    for (i = 0; i < front && !rc; i++)
        if (before[i] != TD_GPU_GAP_BYTE)
            rc = td_fail(err, TD_ECORRUPT, "wrote before the start of %s (%zu bytes before it)", td_gpu_place_names[at], front - i);
    for (i = 0; i < tail && !rc; i++)
        if (behind[i] != TD_GPU_GAP_BYTE)
            rc = td_fail(err, TD_ECORRUPT, "wrote past the end of %s (byte %zu after it)", td_gpu_place_names[at], i);
    return rc;
}

static void put_c(const struct td_gpu_prepared *p, const void *c)
{
    if (p->c_dense)
        td_gpu_copy_rows(p->op->out.data, stride_here(p), c, stride_there(p), stride_there(p), p->op->out.shape[0]);
    else
        memcpy(p->op->out.data, c, p->c_bytes);
}

static int fetch_c(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    void *copy;
    int rc;

    if (p->back[0]) {
        put_c(p, p->back[0]);
        return TD_OK;
    }
    if (!p->c_dense)
        return s->driver->copy_out(s->device, p->op->out.data, p->memory[TD_GPU_AT_C].address, p->c_bytes, err);
    if (!(copy = malloc(p->c_bytes + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (!(rc = s->driver->copy_out(s->device, copy, p->memory[TD_GPU_AT_C].address, p->c_bytes, err)))
        put_c(p, copy);
    free(copy);
    return rc;
}

static int gpu_fetch(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    int rc = fetch_c(s, p, err), i;

    if (!rc && p->kind->check)
        rc = p->kind->check(s, p, err);
    for (i = 0; i < TD_GPU_N_PLACES && !rc; i++)
        rc = check_gaps(s, p, (enum td_gpu_place)i, err);
    td_gpu_stage_reuse(s);
    return rc;
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* Empty the caches of the op: write more memory than they hold. */
static int sweep_caches(struct td_gpu_state *s, struct td_error *err)
{
    const size_t bytes = s->facts.l2_bytes * 2 > SWEEP_LEAST ? s->facts.l2_bytes * 2 : SWEEP_LEAST;
    int rc = s->sweep.address ? TD_OK : s->driver->alloc(s->device, bytes, 256, false, &s->sweep, err);

    return rc ? rc : s->driver->set(s->device, s->sweep.address, 1, bytes, err);
}

static int time_runs(struct td_gpu_state *s, struct td_gpu_prepared *p, uint32_t runs, int64_t *ns, struct td_error *err)
{
    int rc = s->driver->mark(s->device, 0, err);

    for (uint32_t i = 0; i < runs && !rc; i++)
        rc = p->kind->enqueue(s, p, err);
    if (!rc)
        rc = s->driver->mark(s->device, 1, err);
    return rc ? rc : s->driver->elapsed(s->device, ns, err);
}

static int gpu_time(void *state, void *prepared, uint32_t runs, bool cold, int64_t *ns, struct td_error *err)
{
    struct td_gpu_state *s = state;
    int64_t one = 0;
    int rc = TD_OK;

    *ns = 0;
    if (!cold)
        return time_runs(s, prepared, runs, ns, err);
    for (uint32_t i = 0; i < runs && !rc; i++) {
        if (!(rc = sweep_caches(s, err)))
            rc = time_runs(s, prepared, 1, &one, err);
        *ns += one;
    }
    return rc;
}

static void gpu_condition(void *state, char *out, size_t size)
{
    struct td_gpu_state *s = state;
    struct td_gpu_condition now;
    const char *no = s->driver->condition(s->device, &now);

    if (no)
        snprintf(out, size, "%s", no);
    else
        snprintf(out, size, "%d %d %d %d %lld", now.sm_mhz, now.mem_mhz, now.temp_c, now.power_mw, (long long)now.reasons);
}

#define THE_REST                                                                                   \
    .supports = gpu_supports, .prepare = gpu_prepare, .run = gpu_run, .fetch = gpu_fetch,          \
    .release = gpu_release, .close = gpu_close, .words = gpu_words, .refill = gpu_refill,          \
    .time = gpu_time, .varies = gpu_varies, .half_sums = gpu_half_sums, .is_dead = gpu_is_dead,            \
    .rounding = gpu_rounding, .condition = gpu_condition
const struct td_provider td_provider_cuda = {.name = "cuda", .open = cuda_open, THE_REST};
const struct td_provider td_provider_hip = {.name = "hip", .open = hip_open, THE_REST};
