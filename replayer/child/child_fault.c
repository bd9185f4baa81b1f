/* child_fault.c - the last words of a child: which tensor's end was passed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs inside a signal handler, on its own stack: no allocation, no stdio. */
#include "replayer/child/child_fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)

static struct td_child_fault_watch *watch;

struct line { char *at; size_t left; };

static void put(struct line *l, const char *s)
{
    while (*s && l->left > 1) {
        *l->at++ = *s++;
        l->left--;
    }
    if (l->left)
        *l->at = '\0';
}

static void put_number(struct line *l, unsigned long v)
{
    char digits[24];
    int n = sizeof digits - 1;

    digits[n] = '\0';
    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    put(l, digits + n);
}

static const char *access_name(const void *context)
{
#if defined(__x86_64__)
    const ucontext_t *u = context;

    return u->uc_mcontext.gregs[REG_ERR] & 2 ? "wrote" : "read";
#else
    (void)context;
    return "touched memory";
#endif
}

static void name_tensor(struct line *l, const void *addr, const void *context)
{
    int i;

    for (i = 0; i < watch->n_guards; i++) {
        long by;
        int where = td_guard_owns(&watch->guards[i], addr, &by);

        if (!where)
            continue;
        put(l, access_name(context));
        if (where > 0) {
            put(l, " past the end of ");
            put(l, watch->roles[i]);
            put(l, " (byte ");
            put_number(l, (unsigned long)by);
            put(l, " after it)");
        } else {
            put(l, " before the start of ");
            put(l, watch->roles[i]);
        }
        return;
    }
    if ((uintptr_t)addr < 4096)
        put(l, "followed a NULL pointer");
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    if (watch && watch->note && !watch->note[0]) {
        struct line l = {watch->note, watch->note_bytes};

        if (sig == SIGSEGV && info->si_code == SI_KERNEL) /* x86 does not say where */
            put(&l, "used a misaligned or impossible address");
        else if (sig == SIGSEGV || sig == SIGBUS)
            name_tensor(&l, info->si_addr, context);
    }
    signal(sig, SIG_DFL); /* returning repeats the instruction, or abort() goes on: the parent sees the true signal */
    if (sig == SIGABRT || info->si_code <= 0)
        raise(sig);
}

int td_child_fault_install(struct td_child_fault_watch *w, struct td_error *err)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static char stack[STACK_BYTES];
    stack_t ss = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    size_t i;

    watch = w;
    if (sigaltstack(&ss, NULL))
        return td_fail(err, TD_EIO, "sigaltstack: %s", strerror(errno));
    sigemptyset(&sa.sa_mask);
    for (i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], &sa, NULL))
            return td_fail(err, TD_EIO, "sigaction: %s", strerror(errno));
    return TD_OK;
}
