/* test_halves_refused.c - which declarations of sums in halves are not taken.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/ops/half_sums.h"
#include "replayer/judge_halves.h"

/* What smaller blocks and steps lose would excuse kernels that are wrong, whoever tells of them. */
static void small_blocks_and_steps_are_refused(void **state)
{
    static const struct { struct td_half_sums how; int refused; } cases[] = {
        {{0, 0, false}, 0},  {{31, 0, false}, 31},   {{32, 0, false}, 0},   {{128, 0, true}, 0}, {{128, 8, false}, 0},
        {{1, 1, false}, 1},  {{8, 8, false}, 8},     {{128, 1, false}, 1},  {{128, 7, false}, 7},
        {{TD_HALF_SUMS_ALL, 16, false}, 0}, {{TD_HALF_SUMS_ALL, 4, false}, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct td_run_result run = {.half_sums = td_half_sums_pack(cases[i].how)};

        assert_int_equal(td_halves_refused(&run), cases[i].refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_blocks_and_steps_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
