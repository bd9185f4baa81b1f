/* provider_ref.c - runs an op as its kind's reference does, in double, and rounds once to the type of the output.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/gptq_gemm_op.h"
#include "kernels/providers.h"
#include "model/f16.h"

struct ref_state { char why[480]; };
struct ref_prepared { struct td_gptq_gemm_args args; double *r; };

/* To f16 in one rounding: through a float that is rounded to odd, whose 24 bits keep what the second rounding must know. */
static uint16_t round_double(double d)
{
    float f = (float)d;
    uint32_t u = td_f32_bits(f);

    if (isfinite(f) && (double)f != d) {
        if (fabs((double)f) > fabs(d))
            u--;
        f = td_f32_from_bits(u | 1);
    }
    return td_f16_round(f);
}

static int ref_open(const char *arg, void **state, struct td_error *err)
{
    *state = NULL;
    if (arg && *arg)
        return td_fail(err, TD_EINVAL, "provider ref takes no argument, \"%s\" was given", arg);
    *state = calloc(1, sizeof(struct ref_state));
    return *state ? 0 : td_fail(err, TD_ENOMEM, "out of memory");
}

static const char *ref_supports(void *state, const struct td_op_call *op)
{
    struct ref_state *s = state;

    return td_provider_supports_gptq_gemm(op, s->why, sizeof s->why);
}

static int ref_prepare(void *state, const struct td_op_call *op, void **prepared, struct td_error *err)
{
    struct ref_prepared *p = calloc(1, sizeof *p);
    int rc;

    (void)state;
    *prepared = NULL;
    if (!p)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if ((rc = td_gptq_gemm_args_of(op, &p->args, err)))
        goto fail;
    if (!(p->r = malloc(((size_t)p->args.m * (size_t)p->args.n + 1) * sizeof *p->r))) {
        rc = td_fail(err, TD_ENOMEM, "out of memory");
        goto fail;
    }
    *prepared = p;
    return 0;
fail:
    free(p);
    return rc;
}

static int ref_run(void *state, void *prepared, struct td_error *err)
{
    struct ref_prepared *p = prepared;
    const struct td_gptq_gemm_args *x = &p->args;
    int rc;

    (void)state;
    if (x->m > 0 && !x->c)
        return td_fail(err, TD_EINVAL, "gptq_gemm: no memory for the output");
    if ((rc = td_gptq_gemm_ref(x, p->r, NULL)))
        return td_fail(err, rc == TD_KERNEL_ENOMEM ? TD_ENOMEM : TD_EINVAL, "gptq_gemm_ref: %s", td_kernel_status_text(rc));
    for (int64_t m = 0; m < x->m; m++)
        for (int64_t n = 0; n < x->n; n++)
            x->c[m * x->ldc + n] = round_double(p->r[m * x->n + n]);
    return 0;
}

static int ref_fetch(void *state, void *prepared, struct td_error *err)
{
    (void)state, (void)prepared, (void)err;
    return 0;
}

static void ref_release(void *state, void *prepared)
{
    struct ref_prepared *p = prepared;

    (void)state;
    if (p)
        free(p->r);
    free(p);
}

static void ref_close(void *state)
{
    free(state);
}

const struct td_provider td_provider_ref = {"ref", ref_open, ref_supports, ref_prepare, ref_run, ref_fetch, ref_release, ref_close, NULL, NULL};
