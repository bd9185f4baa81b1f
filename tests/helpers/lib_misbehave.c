/* lib_misbehave.c - a CPU build of td_gptq_gemm for replay --build: right, or wrong as TD_MISBEHAVE
 * says.
 * SPDX-License-Identifier: Apache-2.0
 *
 * TD_MISBEHAVE=<word>; any other word: right
 *   null, abort, exit, hang   end or stop the process
 *   tired                     end it at its fifth call: an op runs three times, and six or more in the first start in which it is timed
 *   sated                     return TD_KERNEL_ENOMEM from its fifth call on
 *   stop                      send SIGINT to replay, its parent, at its fifth call
 *   assert                    write a failed assertion and more lines to stderr, then abort
 *   keys                      write HF_TOKEN and others to stderr, then abort
 *   overread                  read behind qweight
 *   overwrite                 write behind c
 *   scribble                  write into a
 *   weights                   write into qweight
 *   skip                      leave the last column of c alone
 *   add                       add to c instead of setting it
 *   flaky                     other low bits at each call
 *   nan, zero                 all of c is NaN, or 0
 *   column                    one column off by 2 %
 *   kslice                    the second half of K is left out
 *   scales                    the scales of the last group are those of the first
 *   tiles                     columns 64 to 127 of each 128 are off by 5 %
 *   tail                      columns from 250 on, and rows from 16 on, are off by 5 %
 *   one                       one element is off by 5 %
 *   refuse                    return TD_KERNEL_EUNSUPPORTED
 *   enomem                    return TD_KERNEL_ENOMEM
 *   poor, poor-null           return TD_KERNEL_ENOMEM in the two calls that make TD_MISBEHAVE_ONCE and the same with "2" at
 *                             its end (replay tries once more itself); then right, or as null
 *   killed                    SIGKILL, as by the kernel when the machine's memory is used up
 *   badalloc                  end as a C++ program does whose allocation fails
 * TD_MISBEHAVE_ONCE=FILE: wrong in the process that makes FILE only.
 * "+m" at the end of a word, as in "null+m": wrong only for m > 1. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/abi/td_gptq.h"
#include "common/f16.h"

static float dot(const struct td_gptq_gemm_args *x, const char *how, int32_t m, int32_t n)
{
    int32_t per = 32 / x->bits, mask = (1 << x->bits) - 1, k;
    const int32_t end = strcmp(how, "kslice") ? x->k : x->k / 2;
    float sum = 0;

    for (k = 0; k < end; k++) {
        int32_t g = x->g_idx ? x->g_idx[k] : k / x->group_size;
        int32_t s = !strcmp(how, "scales") && g == x->k / x->group_size - 1 ? 0 : g;
        int32_t q = (int32_t)(x->qweight[(int64_t)(k / per) * x->n + n] >> x->bits * (k % per)) & mask;
        int32_t z = (int32_t)(x->qzeros[(int64_t)g * (x->n / per) + n / per] >> x->bits * (n % per)) & mask;

        sum += td_f16_load(x->a[m * x->lda + k]) * (float)(q - z - x->zero_offset) * td_f16_load(x->scales[(int64_t)s * x->n + n]);
    }
    return sum;
}

/* These crashes are intended: the sanitizer must not turn them into an exit. */
__attribute__((no_sanitize("undefined", "address")))
static void before(const struct td_gptq_gemm_args *x, const char *how)
{
    static volatile uint32_t sink;
    static int calls;

    if (!strcmp(how, "null"))
        *(volatile int *)(uintptr_t)sink = 1;
    if (!strcmp(how, "abort") || (!strcmp(how, "tired") && ++calls == 5))
        abort();
    if (!strcmp(how, "stop") && ++calls == 5)
        kill(getppid(), SIGINT);
    if (!strcmp(how, "assert")) {
        fprintf(stderr, "loading\nmisbehave.c:1: Assertion `m == 0' failed.\nbacktrace: none\n");
        abort();
    }
    if (!strcmp(how, "keys")) {
        fprintf(stderr, "Assertion failed: token <%s> api_key=canary-env-2 Bearer canary-env-3abcdefgh\n", getenv("HF_TOKEN"));
        abort();
    }
    if (!strcmp(how, "killed"))
        raise(SIGKILL);
    if (!strcmp(how, "badalloc")) {
        fputs("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n", stderr);
        abort();
    }
    if (!strcmp(how, "exit"))
        _exit(3);
    while (!strcmp(how, "hang"))
        sleep(1);
    if (!strcmp(how, "overread"))
        sink = ((volatile const uint8_t *)x->qweight)[(int64_t)x->k * x->bits / 32 * x->n * 4 + 64];
    if (!strcmp(how, "scribble"))
        ((uint16_t *)(uintptr_t)x->a)[0] ^= 1;
    if (!strcmp(how, "weights"))
        ((uint32_t *)(uintptr_t)x->qweight)[0] ^= 1;
}

static uint16_t element(const struct td_gptq_gemm_args *x, const char *how, int32_t m, int32_t n)
{
    static unsigned call;
    float v = dot(x, how, m, n);

    if (!strcmp(how, "nan"))
        return 0x7e00;
    if (!strcmp(how, "zero"))
        return 0;
    if (!strcmp(how, "column") && n == x->n / 2)
        v *= 1.02f;
    if ((!strcmp(how, "tiles") && n % 128 >= 64) || (!strcmp(how, "one") && !m && n == 7) ||
        (!strcmp(how, "tail") && n >= 250 && (m >= 16 || x->m == 1)))
        v *= 1.05f;
    if (!strcmp(how, "add"))
        v += td_f16_load(x->c[m * x->ldc + n]);
    return (uint16_t)(td_f16_round(v) ^ (!strcmp(how, "flaky") && !n ? ++call & 1 : 0));
}

static int lacks_twice(const char *file)
{
    char second[4096];

    snprintf(second, sizeof second, "%s2", file);
    return open(file, O_CREAT | O_EXCL, 0600) >= 0 || open(second, O_CREAT | O_EXCL, 0600) >= 0;
}

int td_gptq_gemm(const struct td_gptq_gemm_args *x)
{
    const char *env = getenv("TD_MISBEHAVE"), *plus = env ? strchr(env, '+') : NULL;
    const char *once = getenv("TD_MISBEHAVE_ONCE");
    static int calls, made; /* 1: this process made the file, -1: another one did */
    char how[32] = "";
    int32_t m, n;

    if (once && env && !strncmp(env, "poor", 4)) {
        if (lacks_twice(once))
            return TD_KERNEL_ENOMEM;
        before(x, strcmp(env, "poor") ? "null" : "");
        once = NULL;
    }
    if (once && !made)
        made = open(once, O_CREAT | O_EXCL, 0600) >= 0 ? 1 : -1;
    if (env && (!plus || x->m > 1) && made >= 0)
        strncat(how, env, plus ? (size_t)(plus - env) : sizeof how - 1);
    before(x, how);
    if (!strcmp(how, "refuse"))
        return TD_KERNEL_EUNSUPPORTED;
    if (!strcmp(how, "enomem") || (!strcmp(how, "sated") && ++calls >= 5))
        return TD_KERNEL_ENOMEM;
    for (m = 0; m < x->m; m++)
        for (n = 0; n < x->n - !strcmp(how, "skip"); n++)
            x->c[m * x->ldc + n] = element(x, how, m, n);
    if (!strcmp(how, "overwrite"))
        x->c[(x->m - 1) * x->ldc + x->n] = 0;
    return TD_KERNEL_OK;
}

const char *td_kernels_build(void)
{
    return "misbehaving test build";
}

void td_step(const struct td_step_args *args)
{
    (void)args;
}
