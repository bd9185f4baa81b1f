/* provider_cpu.c - runs an op with a variant in the tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/ops/gptq_gemm_op.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/ops/op_variants.h"
#include "kernels/providers/provider_common.h"

struct cpu_state {
    char name[40]; /* the variant asked for; "": the fastest */
    char why[480];
};

/* Either a variant behind td_gptq.h with its arguments, or one that takes the op as it is. */
struct cpu_prepared {
    const struct td_gptq_gemm_variant *gptq;
    struct td_gptq_gemm_args args;
    const struct td_op_variant *variant;
    const struct td_op_call *op;
    void *work;
};

static const char *wanted_name(const struct cpu_state *s)
{
    return s->name[0] ? s->name : NULL;
}

/* Does any table have a variant of that name that this machine can run? */
static bool is_known_variant(const char *name)
{
    if (td_gptq_gemm_find(name))
        return true;
    for (const struct td_op_variant *const *v = td_op_variants(); *v; v++)
        if (td_op_variant_find((*v)->kind, name))
            return true;
    return false;
}

static int fail_no_variant(const char *name, struct td_error *err)
{
    char names[200] = "";

    for (const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants; v->name; v++) {
        const size_t at = strlen(names);

        snprintf(names + at, sizeof names - at, "%s%s%s", at ? ", " : "", v->name,
                 td_gptq_gemm_can_run(v) ? "" : " (not on this machine)");
    }
    return td_fail(err, TD_EINVAL, "provider cpu: no variant \"%s\" that runs here; there are: %s", name, names);
}

static int cpu_open(const char *arg, void **state, struct td_error *err)
{
    struct cpu_state *s;

    *state = NULL;
    if (!(s = calloc(1, sizeof *s)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (arg && *arg && (strlen(arg) >= sizeof s->name || !is_known_variant(arg))) {
        free(s);
        return fail_no_variant(arg, err);
    }
    snprintf(s->name, sizeof s->name, "%s", arg ? arg : "");
    *state = s;
    return 0;
}

/* Fill p->gptq or p->variant; both stay NULL if no variant of this name runs such an op. op has passed its
 * check. */
static void choose_variant(const struct cpu_state *s, const struct td_op_call *op, struct cpu_prepared *p)
{
    if (!strcmp(op->kind, "gptq_gemm") && !td_gptq_gemm_args_of(op, &p->args, NULL))
        p->gptq = td_gptq_gemm_find(wanted_name(s));
    else
        p->variant = td_op_variant_find(op->kind, wanted_name(s));
}

static const char *cpu_supports(void *state, const struct td_op_call *op)
{
    struct cpu_state *s = state;
    struct cpu_prepared p = {0};

    if (td_op_unfit(op, s->why, sizeof s->why))
        return s->why;
    choose_variant(s, op, &p);
    if (p.gptq || p.variant)
        return NULL;
    if (!td_op_variant_find(op->kind, NULL) && strcmp(op->kind, "gptq_gemm"))
        snprintf(s->why, sizeof s->why, "no kernel of ours computes %s", op->kind);
    else
        snprintf(s->why, sizeof s->why,
                 "no variant \"%s\" of our kernels runs this %s; without a name the default does",
                 s->name, op->kind);
    return s->why;
}

static void cpu_release(void *state, void *prepared)
{
    struct cpu_prepared *p = prepared;

    (void)state;
    if (p)
        free(p->work);
    free(p);
}

static int cpu_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    struct cpu_prepared *p = calloc(1, sizeof *p);
    char why[480];

    *prepared = NULL;
    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (td_op_unfit(op, why, sizeof why)) {
        free(p);
        return td_fail(err, TD_EINVAL, "%s", why);
    }
    p->op = op;
    choose_variant(state, op, p);
    if (p->variant && td_memory_room(p->variant->work_bytes(op), op->kind, err)) {
        free(p);
        return TD_ENOMEM;
    }
    if (p->variant && !(p->work = malloc(p->variant->work_bytes(op) + 1))) {
        free(p);
        return td_fail(err, TD_ENOMEM, "out of memory for the work of a %s", op->kind);
    }
    *prepared = p;
    return 0;
}

static int cpu_run(void *state, void *prepared, struct td_error *err)
{
    const struct cpu_prepared *p = prepared;
    int rc;

    (void)state;
    if (p->variant) {
        if (!p->op->out.data)
            return td_fail(err, TD_EINVAL, "%s: no memory for the output", p->op->kind);
        p->variant->run(p->op, p->work);
        return 0;
    }
    if (!p->gptq)
        return td_fail(err, TD_EUNSUPPORTED, "%s: no variant runs this op", p->op->kind);
    rc = td_gptq_gemm_run(p->gptq, &p->args);
    return rc ? td_fail(err, rc == TD_KERNEL_ENOMEM ? TD_ENOMEM : TD_EINVAL, "gptq_gemm_%s: %s",
                        p->gptq->name, td_kernel_status_text(rc))
              : 0;
}

static void cpu_close(void *state)
{
    free(state);
}

const struct td_provider td_provider_cpu = {.name = "cpu",
                                            .open = cpu_open,
                                            .supports = cpu_supports,
                                            .prepare = cpu_prepare,
                                            .run = cpu_run,
                                            .fetch = td_provider_fetch_nothing,
                                            .release = cpu_release,
                                            .close = cpu_close,
                                            .rounding = td_provider_rounding_exact_sums};
