/* fibre.c - stacks and the switch between them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On x86-64 the switch is a few instructions, which saves the system call of swapcontext; elsewhere it is
 * ucontext. */
#include "kernels/simt/fibre.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TD_ASAN 1
#endif
#endif

#ifdef TD_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK (256u << 10) /* redzones around every local */
#else
#define STACK (64u << 10)
#endif
#define GUARD 4096u
#define MAX_FIBRES 1024    /* threads of a block */

struct context {
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t uc;
#endif
    void *fake_stack;      /* AddressSanitizer's */
};

static struct {
    unsigned char *stacks; /* of MAX_FIBRES, GUARD + STACK each */
    int n;                 /* of which so many may be used */
    struct context fibre[MAX_FIBRES], scheduler;
    int running;
    void (*entry[MAX_FIBRES])(void *arg);
    void *arg[MAX_FIBRES];
    const void *scheduler_stack;
    size_t scheduler_size;
} pool;

static unsigned char *stack_of(int i)
{
    return pool.stacks + (size_t)i * (GUARD + STACK) + GUARD;
}

int td_fibre_reserve(int n, struct td_error *err)
{
    const size_t size = (size_t)MAX_FIBRES * (GUARD + STACK);

    if (n > MAX_FIBRES)
        return td_fail(err, TD_EINVAL, "%d threads in a block; at most %d can be", n, MAX_FIBRES);
    if (!pool.stacks) {
        void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            return td_fail(err, TD_ENOMEM, "no address space for the stacks of %d threads: %s", MAX_FIBRES, strerror(errno));
        pool.stacks = p;
    }
    for (; pool.n < n; pool.n++)
        if (mprotect(stack_of(pool.n), STACK, PROT_READ | PROT_WRITE))
            return td_fail(err, TD_ENOMEM, "no memory for the stack of thread %d of a block: %s", pool.n, strerror(errno));
    return TD_OK;
}

void td_fibre_release(void)
{
    if (pool.stacks)
        munmap(pool.stacks, (size_t)MAX_FIBRES * (GUARD + STACK));
    pool.stacks = NULL;
    pool.n = 0;
}

/* ---- what AddressSanitizer is told ----------------------------------------------------------- */

static void leave_fibre(struct context *from, const void *stack, size_t size)
{
#ifdef TD_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, stack, size);
#else
    (void)from, (void)stack, (void)size;
#endif
}

static void arrive_in_fibre(struct context *at, bool at_fibre)
{
#ifdef TD_ASAN
    __sanitizer_finish_switch_fiber(at->fake_stack, at_fibre ? &pool.scheduler_stack : NULL,
                                    at_fibre ? &pool.scheduler_size : NULL);
#else
    (void)at, (void)at_fibre;
#endif
}

/* ---- the switch ------------------------------------------------------------------------------ */

TD_FIBRE_NO_RETURN static void enter_fibre(void)
{
    const int i = pool.running;

    arrive_in_fibre(&pool.fibre[i], true);
    pool.entry[i](pool.arg[i]);
    __builtin_trap(); /* entry never returns */
}

#ifdef __x86_64__

void td_fibre_switch(void **save_sp, void *load_sp);
__asm__(".text\n"
        ".globl td_fibre_switch\n"
        ".hidden td_fibre_switch\n"
        ".type td_fibre_switch, @function\n"
        "td_fibre_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size td_fibre_switch, .-td_fibre_switch\n");

static void prepare_context(int i)
{
    uint64_t *top = (uint64_t *)(void *)(stack_of(i) + STACK) - 2;

    top[0] = (uint64_t)(uintptr_t)enter_fibre; /* ret goes there, and leaves sp as a call does: a multiple of 16 and 8 */
    top[1] = 0;                          /* where enter_fibre would return to */
    top -= 6;
    memset(top, 0, 6 * sizeof *top);     /* the six registers */
    pool.fibre[i].sp = top;
}

TD_FIBRE_NO_RETURN static void switch_context(struct context *from, struct context *to)
{
    td_fibre_switch(&from->sp, to->sp);
}

#else

static void prepare_context(int i)
{
    getcontext(&pool.fibre[i].uc);
    pool.fibre[i].uc.uc_stack.ss_sp = stack_of(i);
    pool.fibre[i].uc.uc_stack.ss_size = STACK;
    makecontext(&pool.fibre[i].uc, enter_fibre, 0);
}

TD_FIBRE_NO_RETURN static void switch_context(struct context *from, struct context *to)
{
    swapcontext(&from->uc, &to->uc);
}

#endif

void td_fibre_start(int i, void (*entry)(void *arg), void *arg)
{
    pool.entry[i] = entry;
    pool.arg[i] = arg;
    pool.fibre[i].fake_stack = NULL;
#ifdef TD_ASAN
    __asan_unpoison_memory_region(stack_of(i), STACK); /* frames that were never left */
#endif
    prepare_context(i);
}

void td_fibre_resume(int i)
{
    pool.running = i;
    leave_fibre(&pool.scheduler, stack_of(i), STACK);
    switch_context(&pool.scheduler, &pool.fibre[i]);
    arrive_in_fibre(&pool.scheduler, false);
}

TD_FIBRE_NO_RETURN void td_fibre_yield(void)
{
    struct context *self = &pool.fibre[pool.running];

    leave_fibre(self, pool.scheduler_stack, pool.scheduler_size);
    switch_context(self, &pool.scheduler);
    arrive_in_fibre(self, true);
}
