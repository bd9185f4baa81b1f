/* provider_cpu.c - runs an op with a variant in the tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gptq_gemm/gptq_gemm.h"
#include "kernels/gptq_gemm_op.h"
#include "kernels/providers.h"

struct cpu_state {
    const struct td_gptq_gemm_variant *variant;
    char why[480];
};

static int no_variant(const char *name, struct td_error *err)
{
    char names[200] = "";

    for (const struct td_gptq_gemm_variant *v = td_gptq_gemm_variants; v->name; v++) {
        const size_t at = strlen(names);

        snprintf(names + at, sizeof names - at, "%s%s%s", at ? ", " : "", v->name, td_gptq_gemm_can_run(v) ? "" : " (not on this machine)");
    }
    return td_fail(err, TD_EINVAL, "provider cpu: no variant \"%s\" that runs here; there are: %s", name, names);
}

static int cpu_open(const char *arg, void **state, struct td_error *err)
{
    struct cpu_state *s = calloc(1, sizeof *s);

    *state = NULL;
    if (!s)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (!(s->variant = td_gptq_gemm_find(arg && *arg ? arg : NULL))) {
        free(s);
        return no_variant(arg ? arg : "", err);
    }
    *state = s;
    return 0;
}

static const char *cpu_supports(void *state, const struct td_op_call *op)
{
    struct cpu_state *s = state;

    return td_provider_supports_gptq_gemm(op, s->why, sizeof s->why);
}

static int cpu_run(void *state, void *prepared, struct td_error *err)
{
    const struct cpu_state *s = state;
    const int rc = td_gptq_gemm_run(s->variant, prepared);

    return rc ? td_fail(err, rc == TD_KERNEL_ENOMEM ? TD_ENOMEM : TD_EINVAL, "gptq_gemm_%s: %s", s->variant->name, td_kernel_status_text(rc)) : 0;
}

static void cpu_close(void *state)
{
    free(state);
}

const struct td_provider td_provider_cpu = {"cpu", cpu_open, cpu_supports, td_provider_prepare_gptq_gemm, cpu_run, td_provider_fetch_nothing,
                                           td_provider_free_prepared, cpu_close, NULL, NULL};
