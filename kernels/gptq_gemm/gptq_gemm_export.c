/* gptq_gemm_export.c - the functions that libtdkernels.so exports (td_gptq.h).
 * SPDX-License-Identifier: Apache-2.0
 *
 * libtapedeck.a does not hold them: a program must get them from the library, so that a tap or another
 * build can take its place.
 *
 * TD_KERNEL=c|avx2 in the environment forces a variant; if it is unknown or cannot run here, every call
 * fails. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/gptq_gemm/gptq_gemm.h"

#ifndef TD_BUILD_NOTE /* a planted bug gives its name here */
#define TD_BUILD_NOTE ""
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct td_gptq_gemm_variant *variant;
static char build[120];

static void pick_variant(void)
{
    const char *forced = getenv("TD_KERNEL");

    variant = td_gptq_gemm_find(forced && *forced ? forced : NULL);
    snprintf(build, sizeof build, "tdkernels %s %s%s", TD_VERSION, variant ? variant->name : "(no variant as TD_KERNEL asks)",
             TD_BUILD_NOTE);
}

int td_gptq_gemm(const struct td_gptq_gemm_args *args)
{
    pthread_once(&once, pick_variant);
    return variant ? td_gptq_gemm_run(variant, args) : TD_KERNEL_EUNSUPPORTED;
}

const char *td_kernels_build(void)
{
    pthread_once(&once, pick_variant);
    return build;
}

#ifndef TD_HALF_SUMS
#define TD_HALF_SUMS 0
#endif

int td_kernels_half_sums(void)
{
    return TD_HALF_SUMS;
}

/* Empty on purpose, and never inlined, because a tap stands in its place. */
__attribute__((noinline)) void td_step(const struct td_step_args *args)
{
    __asm__ volatile("" : : "r"(args) : "memory");
}
