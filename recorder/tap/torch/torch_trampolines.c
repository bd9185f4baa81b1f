/* torch_trampolines.c - a function for each operator, which torch calls in place of the real one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers are octal: three digits for each of the 512 places. */
#include "recorder/tap/torch/torch_trampolines.h"

#include "recorder/tap/torch/torch_call.h"

#define TRAMPOLINE(n)                                                                              \
    static void trampoline_##n(td_torch_value *stack, uint64_t n_args, uint64_t n_results)         \
    {                                                                                              \
        tap_torch_call(n, stack, n_args, n_results);                                               \
    }
#define ADDRESS(n) trampoline_##n,

#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define SIXTY_FOUR(X, n)                                                                           \
    EIGHT(X, n##0) EIGHT(X, n##1) EIGHT(X, n##2) EIGHT(X, n##3)                                    \
    EIGHT(X, n##4) EIGHT(X, n##5) EIGHT(X, n##6) EIGHT(X, n##7)
#define ALL(X)                                                                                     \
    SIXTY_FOUR(X, 00) SIXTY_FOUR(X, 01) SIXTY_FOUR(X, 02) SIXTY_FOUR(X, 03)                        \
    SIXTY_FOUR(X, 04) SIXTY_FOUR(X, 05) SIXTY_FOUR(X, 06) SIXTY_FOUR(X, 07)

ALL(TRAMPOLINE)

static td_torch_boxed *const all[] = {ALL(ADDRESS)};
_Static_assert(sizeof all / sizeof *all == TAP_TORCH_OPERATORS, "one for each place");

td_torch_boxed *tap_torch_trampoline(unsigned place)
{
    return all[place];
}

bool tap_torch_is_trampoline(td_torch_boxed *fn)
{
    unsigned i;

    for (i = 0; i < TAP_TORCH_OPERATORS && all[i] != fn; i++)
        ;
    return i < TAP_TORCH_OPERATORS;
}
