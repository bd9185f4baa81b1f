/* child_fault.c - on a fatal signal, write down which tensor's end was passed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This runs in a signal handler on a stack of its own: no allocation, no stdio. */
#include "replayer/child/child_fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)

static struct td_child_fault_watch *watch;

struct sentence { char *at; size_t left; };

static void append(struct sentence *l, const char *s)
{
    while (*s && l->left > 1) {
        *l->at++ = *s++;
        l->left--;
    }
    if (l->left)
        *l->at = '\0';
}

static void append_number(struct sentence *l, unsigned long v)
{
    char digits[24];
    int n = sizeof digits - 1;

    digits[n] = '\0';
    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    append(l, digits + n);
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

static void describe_address(struct sentence *l, const void *addr, const void *context)
{
    int i;

    for (i = 0; i < watch->n_guards; i++) {
        long by;
        int where = td_guard_owns(&watch->guards[i], addr, &by);

        if (!where)
            continue;
        append(l, access_name(context));
        if (where > 0) {
            append(l, " past the end of ");
            append(l, watch->roles[i]);
            append(l, " (byte ");
            append_number(l, (unsigned long)by);
            append(l, " after it)");
        } else {
            append(l, " before the start of ");
            append(l, watch->roles[i]);
        }
        return;
    }
    if ((uintptr_t)addr < 4096)
        append(l, "followed a NULL pointer");
}

static void on_fatal_signal(int sig, siginfo_t *info, void *context)
{
    if (watch && watch->note && !watch->note[0]) {
        struct sentence l = {watch->note, watch->note_bytes};

        if (sig == SIGSEGV && info->si_code == SI_KERNEL) /* x86 does not report the address */
            append(&l, "used a misaligned or impossible address");
        else if (sig == SIGSEGV || sig == SIGBUS)
            describe_address(&l, info->si_addr, context);
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
    struct sigaction sa = {.sa_sigaction = on_fatal_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
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
