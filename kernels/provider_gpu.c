/* provider_gpu.c - runs an op on a GPU with a kernel of a build: a library, a fat binary, a cubin, a code object; no torch, no Python.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Providers cuda and hip are this file on two drivers (gpu/driver.h).
 *
 * Which kernel: the one that the recording names, in whatever build; else another that a row of adapter.h knows and that can do the op, in the order
 * of the rows. TD_CUDA_KERNEL or TD_HIP_KERNEL (--build-env) chooses among them: only names that contain it count ("exllama_4bit_f16").
 *
 * prepare brings the weights into the layout that the kernel reads, and everything to the GPU. run is what a server does for one op: set the output to
 * zero where the kernel adds to it, the launches, and wait for them. time does that between two events of the stream without waiting in between.
 * Launches follow geometry.h; those of Marlin, whose bits depend on them, the recording where this build and GPU can (geometry_marlin.h). A kernel that adds
 * halves atomically gives other bits each time: so does the server's.
 *
 * A context and the containers of a large library cost a second or so, so the starts of a timed op are no new processes (renew): each loads the code
 * again and allocates all tensors while those of the starts before are still there. Context, stream and events stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/provider_gpu.h"
#include "kernels/providers.h"

#define GAP_FRONT 256
#define SWEEP_LEAST ((size_t)64 << 20)

/* ---- open ---------------------------------------------------------------------------------------------------------- */

static void gpu_close(void *state)
{
    struct td_gpu_state *s = state;

    if (!s)
        return;
    if (s->build)
        td_gpu_drop_kept(s);
    td_gpu_build_close(s->build);
    td_gpu_blas_close(s->blas);
    if (s->device && !s->driver->is_dead(s->device))
        s->driver->free(s->device, &s->sweep);
    s->driver->close(s->device);
    free(s);
}

/* The library of products is part of what a host library computes with, so it is in the words. Where it is missing, the first op that needs it says so. */
static void find_early(struct td_gpu_state *s)
{
    if (s->facts.sm && td_gpu_image_needed(td_gpu_build_image(s->build), "libcudart.so"))
        td_gpu_find_blas(s);
}

static int open_on(const struct td_gpu_driver *driver, const char *choice, const char *arg, void **state, struct td_error *err)
{
    const char *only = getenv(choice);
    struct td_gpu_state *s;
    int rc;

    *state = NULL;
    if (!arg || !*arg)
        return td_fail(err, TD_EINVAL, "provider %s needs the path of a build: a library with GPU code, a .fatbin, a .cubin or a .hsaco", driver->name);
    if (!(s = calloc(1, sizeof *s)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    s->driver = driver;
    s->choice = choice;
    snprintf(s->only, sizeof s->only, "%s", only ? only : "");
    rc = s->driver->open(&s->device, &s->facts, err);
    if (!rc)
        rc = td_gpu_build_open(arg, s->driver, s->device, &s->facts, &s->build, err);
    if (rc) {
        gpu_close(s);
        return rc;
    }
    find_early(s);
    snprintf(s->words, sizeof s->words, "%s on %.90s (%.40s, %.40s)%s%s, %s", driver->name, s->facts.name, s->facts.arch, s->facts.version,
             s->blas ? ", " : "", s->blas ? td_gpu_blas_words(s->blas) : "", td_gpu_image_what(td_gpu_build_image(s->build)));
    if (s->facts.ptx_off[0])
        snprintf(s->words + strlen(s->words), sizeof s->words - strlen(s->words), "; PTX in it is compiled in every process: %s", s->facts.ptx_off);
    *state = s;
    return TD_OK;
}

static int cuda_open(const char *arg, void **state, struct td_error *err)
{
    return open_on(&td_gpu_driver_cuda, "TD_CUDA_KERNEL", arg, state, err);
}

static int hip_open(const char *arg, void **state, struct td_error *err)
{
    return open_on(&td_gpu_driver_hip, "TD_HIP_KERNEL", arg, state, err);
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

/* ---- which kernel -------------------------------------------------------------------------------------------------- */

/* Kernels that take F16 alone, without a bias, and round nothing. */
static const char *plan_plain(struct td_gpu_state *s, struct td_gpu_prepared *p, int n)
{
    struct td_gptq_gemm_args args;
    struct td_error err = {0};

    if (!td_gptq_gemm_args_exact(p->op, &args, &err))
        return td_gpu_plan_gptq(&p->x, p->offers, n, &p->plan, s->why, sizeof s->why);
    snprintf(s->why, sizeof s->why, "%.479s", err.msg);
    return s->why;
}

/* What one launch makes whole a library multiplies. */
static const char *check_whole(struct td_gpu_state *s, const struct td_gpu_prepared *p)
{
    if (!p->plan.whole || td_gpu_find_blas(s))
        return NULL;
    snprintf(s->why, sizeof s->why, "%lld rows: vLLM leaves the product to a library. %s", (long long)p->x.m, s->no_blas);
    return s->why;
}

/* Everything that can be said without the GPU. NULL: yes. */
static const char *try_name(struct td_gpu_state *s, const char *identifier, struct td_gpu_prepared *p)
{
    const char *no, *layout;
    int n = td_gpu_build_offers(s->build, identifier, &p->offers, s->why, sizeof s->why);

    if (!n)
        return s->why[0] ? s->why : "";
    layout = p->offers[0].row->layout;
    if (!strcmp(layout, "marlin"))
        no = td_gpu_plan_marlin(&p->x, p->op, p->offers, n, &s->facts, &p->plan, s->why, sizeof s->why);
    else
        no = plan_plain(s, p, n);
    no = no ? no : check_whole(s, p);
    p->identifier = identifier;
    p->row = no ? NULL : p->offers[p->plan.launch[0].offer].row;
    return no;
}

/* Rows of one name follow each other, some of the same bits. */
static bool is_first_of_name(const struct td_gpu_adapter *row, int i)
{
    const struct td_gpu_adapter *before;

    while ((before = td_gpu_adapter_at(--i)) && !strcmp(before->identifier, row->identifier))
        if (before->bits == row->bits)
            return false;
    return true;
}

/* Fill identifier, offers and plan. A kernel that the recording names and the build has is the one: no other is tried when it cannot. */
static const char *choose(struct td_gpu_state *s, const struct td_op_call *op, struct td_gpu_prepared *p)
{
    char first[sizeof s->why] = "";
    const struct td_gpu_adapter *row;
    const char *no;
    int pass, i;

    for (pass = 0; pass < 2; pass++)
        for (i = 0; (row = td_gpu_adapter_at(i)); i++) {
            const char *whole = td_gpu_whole_of(row, &p->x), *identifier = whole ? whole : row->identifier;
            bool recorded = td_gpu_symbol_is(op->symbol, identifier);

            if (recorded != (pass == 0) || strcmp(row->kind, op->kind) || row->bits != p->x.bits || !is_first_of_name(row, i)
                || (s->only[0] && !strstr(row->identifier, s->only)))
                continue;
            if (!(no = try_name(s, identifier, p)))
                return NULL;
            if (*no && !first[0])
                snprintf(first, sizeof first, "%s", no);
            if (*no && recorded)
                return no;
        }
    if (first[0])
        memcpy(s->why, first, sizeof first);
    else
        snprintf(s->why, sizeof s->why, "%.180s holds no kernel%s%s%s%s for %.31s with %d bits that is known and runs on %.31s", td_gpu_image_path(td_gpu_build_image(s->build)),
                 s->only[0] ? " with " : "", s->only[0] ? s->choice : "", s->only[0] ? " in its name: " : "", s->only, op->kind, p->x.bits, s->facts.arch);
    return s->why;
}

/* gptq_gemm, and a kernel for it. */
static const char *look_at(struct td_gpu_state *s, const struct td_op_call *op, struct td_gpu_prepared *p)
{
    struct td_error err = {0};

    memset(p, 0, sizeof *p);
    p->op = op;
    if (strcmp(op->kind, "gptq_gemm")) {
        snprintf(s->why, sizeof s->why, "ops of kind \"%s\" are not supported; provider %s runs gptq_gemm", op->kind, s->driver->name);
        return s->why;
    }
    if (td_gptq_op_of(op, &p->x, &err)) {
        snprintf(s->why, sizeof s->why, "%.479s", err.msg);
        return s->why;
    }
    if (p->x.rounding == TD_GPTQ_UINT8_TOKEN)
        return "no kernel that is known rounds activations to 8 bits (uint8-token), as this op's did";
    return choose(s, op, p);
}

/* The plan's kernels, loaded, and whether the device takes such launches. */
static int load_functions(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int i, d;

    for (i = 0; i < p->plan.n; i++) {
        const struct td_gpu_launch *l = &p->plan.launch[i];
        const struct td_gpu_function *f;
        uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

        if (td_gpu_build_function(s->build, p->identifier, l->offer, &p->launch[i].f, err))
            return err->code;
        f = p->launch[i].f;
        if (f->threads_max && threads > f->threads_max)
            return td_fail(err, TD_EUNSUPPORTED, "%s takes blocks of %u threads at most, this op needs %llu", p->identifier, f->threads_max, (unsigned long long)threads);
        if (s->facts.shared_max && (uint64_t)f->shared_bytes + l->shared_bytes > s->facts.shared_max)
            return td_fail(err, TD_EUNSUPPORTED, "%s needs %u bytes of shared memory, %s has %u", p->identifier, f->shared_bytes + l->shared_bytes, s->facts.arch,
                           s->facts.shared_max);
        for (d = 0; d < 3; d++)
            if (s->facts.grid_max[d] && l->grid[d] > s->facts.grid_max[d])
                return td_fail(err, TD_EUNSUPPORTED, "a grid of %u x %u x %u blocks is more than this GPU takes", l->grid[0], l->grid[1], l->grid[2]);
    }
    return TD_OK;
}

static const char *gpu_supports(void *state, const struct td_op_call *op)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared p;

    return look_at(s, op, &p);
}

/* Marlin rounds each weight once it is scaled, where there are groups; the others keep (q - zero) * scale until it is multiplied. */
static const char *gpu_rounding(void *state, const struct td_op_call *op)
{
    struct td_gpu_prepared p;

    if (look_at(state, op, &p))
        return "none";
    if (p.plan.whole)
        return "weight-f16"; /* W is float16 (and the scales are: plan_plain) */
    if (strcmp(p.row->layout, "marlin") || p.x.groups < 2)
        return "none";
    return p.x.dtype == TD_DT_BF16 ? "weight-bf16" : "weight-f16";
}

static int make_launches(struct td_gpu_prepared *p, struct td_error *err)
{
    const bool lda = td_gpu_field_at(p->row, "lda") >= 0 && strcmp(p->row->layout, "marlin");
    const struct td_gpu_places at = {p->memory[TD_GPU_AT_A].address, p->memory[TD_GPU_AT_QWEIGHT].address, p->memory[TD_GPU_AT_QZEROS].address, p->memory[TD_GPU_AT_SCALES].address,
                                     p->memory[TD_GPU_AT_ORDER].address, p->memory[TD_GPU_AT_C].address, lda ? p->x.lda : p->x.k, p->c_dense ? p->x.n : p->x.ldc,
                                     p->memory[TD_GPU_AT_BIAS].address, p->memory[TD_GPU_AT_C_TMP].address, p->memory[TD_GPU_AT_LOCKS].address,
                                     p->memory[TD_GPU_AT_WHOLE].address};
    int i, f;

    for (i = 0; i < p->plan.n; i++) {
        const struct td_gpu_launch *l = &p->plan.launch[i];
        const struct td_gpu_adapter *row = p->offers[l->offer].row;

        if (td_gpu_values_gptq(&p->x, row, l, &at, &p->launch[i].v, err))
            return err->code;
        for (f = 0; f < row->n_fields; f++)
            p->launch[i].params[f] = &p->launch[i].v.value[f]; /* little-endian: a narrow parameter is the value's first bytes */
    }
    return TD_OK;
}

static void gpu_release(void *state, void *prepared)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;

    if (p)
        td_gpu_take_back(s, p);
    free(p);
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
    if (!s->renewed)
        td_gpu_drop_kept(s);
    if ((no = look_at(s, op, p)))
        td_fail(err, TD_EUNSUPPORTED, "%s", no);
    p->keep = s->renewed;
    s->renewed = false;
    if (no || load_functions(s, p, err) || td_gpu_put(s, p, err) || make_launches(p, err)) {
        gpu_release(s, p);
        if (err->code == TD_ENOMEM)
            err->code = TD_EUNSUPPORTED; /* this machine's want, no fault of the build */
        return err->code;
    }
    *prepared = p;
    return TD_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static int gpu_refill(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    const size_t row = (size_t)p->x.n * 2;
    void *copy;
    int rc;

    if (p->plan.whole && (rc = td_gpu_poison_whole(s, p, err)))
        return rc;
    if (!p->c_dense)
        return s->driver->copy_in(s->device, p->memory[TD_GPU_AT_C].address, p->op->out.data, p->c_bytes, err);
    if (!(copy = malloc(p->c_bytes + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    td_gpu_copy_rows(copy, row, p->op->out.data, (size_t)p->x.ldc * 2, row, p->x.m);
    rc = s->driver->copy_in(s->device, p->memory[TD_GPU_AT_C].address, copy, p->c_bytes, err);
    free(copy);
    return rc;
}

/* Does the kernel add to C? Then its blocks do so in any order, and C must be zero before. */
static bool gpu_varies(const void *state, const void *prepared)
{
    const struct td_gpu_adapter *row = ((const struct td_gpu_prepared *)prepared)->offers[0].row;
    const int c = td_gpu_field_at(row, "c");

    (void)state;
    return c >= 0 && row->fields[c].use == TD_GPU_OUT_ZEROED;
}

/* Once, in the stream. */
static int enqueue(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int i, rc = TD_OK;

    if (gpu_varies(s, p))
        rc = s->driver->set(s->device, p->memory[TD_GPU_AT_C].address, 0, p->c_bytes, err);
    for (i = 0; i < p->plan.n && !rc; i++) {
        const struct td_gpu_launch *l = &p->plan.launch[i];

        rc = s->driver->launch(s->device, p->launch[i].f, l->grid, l->block, l->shared_bytes, p->launch[i].params, err);
    }
    return !rc && p->plan.whole ? td_gpu_multiply_whole(s, p, err) : rc;
}

static int gpu_run(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    int rc = enqueue(s, p, err);

    if (!rc)
        rc = s->driver->wait(s->device, err);
    return rc == TD_ECRASH && p->op->guard ? td_fail_at(err, "with guards behind its tensors") : rc;
}

/* Did somebody write where the tensor's mapping goes on, behind it or in front of it? */
static int check_gaps(struct td_gpu_state *s, const struct td_gpu_prepared *p, enum td_gpu_place at, struct td_error *err)
{
    const struct td_gpu_memory *m = &p->memory[at];
    const uint64_t end = m->reserved + m->mapped_bytes, before = m->address - m->reserved;
    const size_t front = before < GAP_FRONT ? (size_t)before : GAP_FRONT, tail = (size_t)(end - m->address) - m->bytes;
    uint8_t gap[GAP_FRONT + 4096];
    size_t i;
    int rc;

    if (!m->reserved || tail > 4096)
        return TD_OK;
    rc = s->driver->copy_out(s->device, gap, m->address - front, front, err);
    if (!rc)
        rc = s->driver->copy_out(s->device, gap + front, m->address + m->bytes, tail, err);
    for (i = 0; i < front + tail && !rc; i++)
        if (gap[i] != TD_GPU_GAP_BYTE)
            rc = i < front ? td_fail(err, TD_ECORRUPT, "wrote before the start of %s (%zu bytes before it)", td_gpu_place_names[at], front - i)
                           : td_fail(err, TD_ECORRUPT, "wrote past the end of %s (byte %zu after it)", td_gpu_place_names[at], i - front);
    return rc;
}

static int fetch_c(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    const size_t row = (size_t)p->x.n * 2;
    void *copy;
    int rc;

    if (!p->c_dense)
        return s->driver->copy_out(s->device, p->op->out.data, p->memory[TD_GPU_AT_C].address, p->c_bytes, err);
    if (!(copy = malloc(p->c_bytes + 1)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (!(rc = s->driver->copy_out(s->device, copy, p->memory[TD_GPU_AT_C].address, p->c_bytes, err)))
        td_gpu_copy_rows(p->op->out.data, (size_t)p->x.ldc * 2, copy, row, row, p->x.m);
    free(copy);
    return rc;
}

/* A lock that stays taken makes the next launch wait for ever, in a server as well. */
static int check_locks(struct td_gpu_state *s, const struct td_gpu_prepared *p, struct td_error *err)
{
    const struct td_gpu_memory *m = &p->memory[TD_GPU_AT_LOCKS];
    uint32_t *locks = m->bytes ? malloc(m->bytes) : NULL;
    int rc = TD_OK;

    if (!m->bytes)
        return TD_OK;
    rc = locks ? s->driver->copy_out(s->device, locks, m->address, m->bytes, err) : td_fail(err, TD_ENOMEM, "out of memory");
    for (size_t i = 0; i < m->bytes / sizeof *locks && !rc; i++)
        if (locks[i])
            rc = td_fail(err, TD_ECORRUPT, "left lock %zu at %u instead of 0: the next launch would wait for it", i, locks[i]);
    free(locks);
    return rc;
}

static int gpu_fetch(void *state, void *prepared, struct td_error *err)
{
    struct td_gpu_state *s = state;
    struct td_gpu_prepared *p = prepared;
    int rc = fetch_c(s, p, err), i;

    if (!rc)
        rc = check_locks(s, p, err);
    for (i = 0; i < TD_GPU_N_PLACES && !rc; i++)
        rc = check_gaps(s, p, (enum td_gpu_place)i, err);
    return rc;
}

/* ---- timing -------------------------------------------------------------------------------------------------------- */

/* More than the caches hold, written anew: what they held of the op is gone. */
static int sweep(struct td_gpu_state *s, struct td_error *err)
{
    const size_t bytes = s->facts.l2_bytes * 2 > SWEEP_LEAST ? s->facts.l2_bytes * 2 : SWEEP_LEAST;
    int rc = s->sweep.address ? TD_OK : s->driver->alloc(s->device, bytes, 256, false, &s->sweep, err);

    return rc ? rc : s->driver->set(s->device, s->sweep.address, 1, bytes, err);
}

static void gpu_renew(void *state)
{
    struct td_gpu_state *s = state;

    td_gpu_build_renew(s->build);
    s->renewed = true;
}

static int time_some(struct td_gpu_state *s, struct td_gpu_prepared *p, uint32_t runs, int64_t *ns, struct td_error *err)
{
    int rc = s->driver->mark(s->device, 0, err);

    for (uint32_t i = 0; i < runs && !rc; i++)
        rc = enqueue(s, p, err);
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
        return time_some(s, prepared, runs, ns, err);
    for (uint32_t i = 0; i < runs && !rc; i++) {
        if (!(rc = sweep(s, err)))
            rc = time_some(s, prepared, 1, &one, err);
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

#define THE_REST .supports = gpu_supports, .prepare = gpu_prepare, .run = gpu_run, .fetch = gpu_fetch, .release = gpu_release, .close = gpu_close, \
                 .words = gpu_words, .refill = gpu_refill, .time = gpu_time, .varies = gpu_varies, .is_dead = gpu_is_dead, .renew = gpu_renew, \
                 .rounding = gpu_rounding, .condition = gpu_condition
const struct td_provider td_provider_cuda = {.name = "cuda", .open = cuda_open, THE_REST};
const struct td_provider td_provider_hip = {.name = "hip", .open = hip_open, THE_REST};
