/* provider_gpu_gptq.c - ops of kind gptq_gemm: which kernel of the build runs one, loaded, with what it is launched.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which kernel: the one that the recording names, if the build has it; else another one that an adapter
 * knows and that can compute the op, in the order of the adapters. TD_CUDA_KERNEL or TD_HIP_KERNEL
 * (--build-env) narrows the choice: only names that contain it count ("exllama_4bit_f16").
 *
 * Launches follow geometry.h. Marlin's bits depend on its launches, so they are the recorded ones if this
 * build and GPU can make them (geometry_marlin.h). Where the kernel adds to C, C is set to zero first, in
 * the stream. A kernel that adds halves atomically gives other bits each time, as it does in the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/adapters.h"
#include "kernels/gpu/geometry_marlin.h"
#include "kernels/gpucode/mangled.h"
#include "kernels/providers/provider_gpu_blas.h"
#include "kernels/providers/provider_gpu_upload.h"
#include "kernels/providers/provider_gpu_upload_marlin.h"

/* ---- which kernel ---------------------------------------------------------------------------- */

/* Plan for kernels that take F16 alone, without a bias, and round nothing. */
static const char *plan_plain(struct td_gpu_state *s, struct td_gpu_prepared *p, int n)
{
    struct td_gptq_gemm_args args;
    struct td_error err = {0};

    if (!td_gptq_gemm_args_exact(p->op, &args, &err))
        return td_gpu_plan_gptq(&p->x, p->offers, n, &p->plan, s->why, sizeof s->why);
    snprintf(s->why, sizeof s->why, "%.479s", err.msg);
    return s->why;
}

/* If a launch only writes the dequantised W, the GPU's library must be there to multiply. */
static const char *check_library(struct td_gpu_state *s, const struct td_gpu_prepared *p)
{
    if (!p->plan.dequant_w || td_gpu_find_blas(s))
        return NULL;
    snprintf(s->why, sizeof s->why, "%lld rows: vLLM leaves the product to a library. %s", (long long)p->x.m, s->no_blas);
    return s->why;
}

/* Can the build's kernels of this name run the op? All that can be decided without the GPU. NULL: yes,
 * and *p is filled. "": the build has none. */
static const char *try_kernel(struct td_gpu_state *s, const char *identifier, struct td_gpu_prepared *p)
{
    const char *no, *layout;
    struct td_gptq_op sorted = p->x;
    int n = td_gpu_build_offers(s->build, identifier, &p->offers, s->why, sizeof s->why);

    p->lacks_memory = n < 0;
    if (n <= 0)
        return s->why[0] ? s->why : "";
    layout = p->offers[0].adapter->layout;
    p->sorts_rows = !strcmp(layout, "marlin") && td_gpu_marlin_sorts(&p->x);
    if (p->sorts_rows)                 /* as vLLM does: then it launches Marlin as without act-order */
        sorted.g_idx = NULL;
    if (!strcmp(layout, "marlin"))
        no = td_gpu_plan_marlin(&sorted, p->op, p->offers, n, &s->facts, &p->plan, s->why, sizeof s->why);
    else
        no = plan_plain(s, p, n);
    no = no ? no : check_library(s, p);
    p->identifier = identifier;
    p->adapter = no ? NULL : p->offers[p->plan.launch[0].offer].adapter;
    return no;
}

/* Is adapter i the first of its name and bits? Adapters of one name follow each other. */
static bool is_first_of_name(const struct td_gpu_adapter *adapter, int i)
{
    const struct td_gpu_adapter *before;

    while ((before = td_gpu_adapter_at(--i)) && !strcmp(before->identifier, adapter->identifier))
        if (before->bits == adapter->bits)
            return false;
    return true;
}

/* Is it the kernel that the recording names? An operator launches kernels that read its layout. */
static bool is_recorded(const struct td_op_call *op, const struct td_gpu_adapter *adapter, const char *identifier)
{
    return td_gpu_symbol_is(op->symbol, identifier) || (td_gpu_symbol_is_operator(op->symbol) && !strcmp(op->layout, adapter->layout));
}

/* The library of an operator has kernels of others too. One of these would be no test of the op, unless
 * it was asked for. */
static bool needs_its_own(const struct td_gpu_state *s, const struct td_op_call *op)
{
    const char *path = td_gpu_image_path(td_gpu_build_image(s->build));
    size_t n = strlen(path);

    return td_gpu_symbol_is_operator(op->symbol) && !s->only[0] && n > 3 && !strcmp(path + n - 3, ".so");
}

/* Fill identifier, offers and plan. If the recording names a kernel that the build has, no other is
 * tried, even if that one cannot run the op. */
static const char *choose_kernel(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    const struct td_op_call *op = p->op;
    char first[sizeof s->why] = "";
    const struct td_gpu_adapter *adapter;
    const char *no;
    int pass, i;

    for (pass = 0; pass < (needs_its_own(s, op) ? 1 : 2); pass++)
        for (i = 0; (adapter = td_gpu_adapter_at(i)); i++) {
            const char *dequant = td_gpu_dequant_of(adapter, &p->x), *identifier = dequant ? dequant : adapter->identifier;
            bool recorded = is_recorded(op, adapter, identifier);

            if (recorded != (pass == 0) || strcmp(adapter->kind, op->kind) ||
                adapter->bits != p->x.bits || !is_first_of_name(adapter, i) ||
                (s->only[0] && !strstr(adapter->identifier, s->only)))
                continue;
            if (!(no = try_kernel(s, identifier, p)))
                return NULL;
            if (*no && !first[0])
                snprintf(first, sizeof first, "%s", no);
            if (*no && (recorded || p->lacks_memory)) /* no other one in its place */
                return no;
        }
    if (first[0])
        memcpy(s->why, first, sizeof first);
    else if (needs_its_own(s, op))
        snprintf(s->why, sizeof s->why, "this op was computed by %.60s, whose kernel cannot be launched from a file: " TD_GPU_NAME_THE_VENV,
                 op->symbol);
    else
        snprintf(
            s->why, sizeof s->why,
            "%.180s holds no kernel%s%s%s%s for %.31s with %d bits that is known and runs on %.31s",
            td_gpu_image_path(td_gpu_build_image(s->build)), s->only[0] ? " with " : "",
            s->only[0] ? s->choice : "", s->only[0] ? " in its name: " : "", s->only, op->kind,
            p->x.bits, s->facts.arch);
    return s->why;
}

static const char *choose_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p)
{
    struct td_error err = {0};

    if (td_gptq_op_of(p->op, &p->x, &err)) {
        snprintf(s->why, sizeof s->why, "%.479s", err.msg);
        return s->why;
    }
    if (p->x.rounding == TD_GPTQ_UINT8_TOKEN)
        return "no kernel that is known rounds activations to 8 bits (uint8-token), as this op's did";
    return choose_kernel(s, p);
}

/* With groups Marlin rounds each weight after it is scaled, and a product before it adds the bias; the
 * other kernels keep (q - zero) * scale exact until they multiply. */
static const char *rounding_gptq(const struct td_gpu_prepared *p)
{
    if (p->plan.dequant_w)
        return "weight-f16"; /* W is float16 (and the scales are: plan_plain) */
    const char *factors = NULL;

    if (strcmp(p->adapter->layout, "marlin"))
        return "none";
    if (p->x.groups > 1)
        factors = p->x.dtype == TD_DT_BF16 ? "weight-bf16" : "weight-f16";
    return p->x.bias ? td_gpu_rounding_bias_after(factors) : factors ? factors : "none";
}

/* ---- ready to be launched -------------------------------------------------------------------- */

/* Load the plan's kernels, and check that the device can make the launches. */
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
            return td_fail(err, TD_EUNSUPPORTED,
                           "%s takes blocks of %u threads at most, this op needs %llu",
                           p->identifier, f->threads_max, (unsigned long long)threads);
        if (s->facts.shared_max && (uint64_t)f->shared_bytes + l->shared_bytes > s->facts.shared_max)
            return td_fail(err, TD_EUNSUPPORTED, "%s needs %u bytes of shared memory, %s has %u",
                           p->identifier, f->shared_bytes + l->shared_bytes, s->facts.arch,
                           s->facts.shared_max);
        for (d = 0; d < 3; d++)
            if (s->facts.grid_max[d] && l->grid[d] > s->facts.grid_max[d])
                return td_fail(err, TD_EUNSUPPORTED,
                               "a grid of %u x %u x %u blocks is more than this GPU takes",
                               l->grid[0], l->grid[1], l->grid[2]);
    }
    return TD_OK;
}

static int make_launches(struct td_gpu_prepared *p, struct td_error *err)
{
    const bool lda = td_gpu_field_at(p->adapter, "lda") >= 0 && strcmp(p->adapter->layout, "marlin");
    const struct td_gpu_places at = {p->memory[TD_GPU_AT_A].address,
                                     p->memory[TD_GPU_AT_QWEIGHT].address,
                                     p->memory[TD_GPU_AT_QZEROS].address,
                                     p->memory[TD_GPU_AT_SCALES].address,
                                     p->memory[TD_GPU_AT_ORDER].address,
                                     p->memory[TD_GPU_AT_C].address,
                                     lda ? p->x.lda : p->x.k,
                                     p->c_dense ? p->x.n : p->x.ldc,
                                     p->memory[TD_GPU_AT_BIAS].address,
                                     p->memory[TD_GPU_AT_C_TMP].address,
                                     p->memory[TD_GPU_AT_LOCKS].address,
                                     p->memory[TD_GPU_AT_DEQUANT_W].address};
    int i, f;

    for (i = 0; i < p->plan.n; i++) {
        const struct td_gpu_launch *l = &p->plan.launch[i];
        const struct td_gpu_adapter *adapter = p->offers[l->offer].adapter;

        if (td_gpu_values_gptq(&p->x, adapter, l, &at, &p->launch[i].v, err))
            return err->code;
        for (f = 0; f < adapter->n_fields; f++)
            p->launch[i].params[f] = &p->launch[i].v.value[f]; /* little-endian: a narrow parameter is the value's first bytes */
    }
    return TD_OK;
}

static int upload_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int rc = load_functions(s, p, err);

    if (!rc)
        rc = td_gpu_upload_gptq(s, p, err);
    return rc ? rc : make_launches(p, err);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Does the kernel add to C? Then its blocks do so in any order, and C must be zero before. */
static bool varies_gptq(const struct td_gpu_prepared *p)
{
    const struct td_gpu_adapter *adapter = p->offers[0].adapter;
    const int c = td_gpu_field_at(adapter, "c");

    return c >= 0 && adapter->fields[c].use == TD_GPU_OUT_ZEROED;
}

static int refill_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    return p->plan.dequant_w ? td_gpu_dequant_w_poison(s, p, err) : TD_OK;
}

static int enqueue_gptq(struct td_gpu_state *s, struct td_gpu_prepared *p, struct td_error *err)
{
    int i, rc = TD_OK;

    if (varies_gptq(p))
        rc = s->driver->set(s->device, p->memory[TD_GPU_AT_C].address, 0, p->c_bytes, err);
    for (i = 0; i < p->plan.n && !rc; i++) {
        const struct td_gpu_launch *l = &p->plan.launch[i];

        rc = s->driver->launch(s->device, p->launch[i].f, l->grid, l->block, l->shared_bytes, p->launch[i].params, err);
    }
    return !rc && p->plan.dequant_w ? td_gpu_dequant_w_multiply(s, p, err) : rc;
}

/* A lock that is not released makes the next launch wait for ever, in a server as well. */
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

const struct td_gpu_kind td_gpu_kind_gptq = {
    .name = "gptq_gemm", .choose = choose_gptq, .rounding = rounding_gptq, .upload = upload_gptq, .enqueue = enqueue_gptq,
    .refill = refill_gptq, .check = check_locks, .varies = varies_gptq};
