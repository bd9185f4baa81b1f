/* test_reference_batch.c - which ops may share one computation of their references.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "replayer/reference_batch.h"
#include "tests/unit/kernels/ops/op_case.h"

static void ops_of_one_form_fit(void **state)
{
    struct op_case a, b;

    (void)state;
    case_gemm(&a, TD_DT_F16, 3, 8, 16, false, 0, true);
    case_gemm(&b, TD_DT_F16, 5, 8, 16, false, 0, true);
    assert_true(td_reference_batch_fits(&a.op, &b.op)); /* M may differ */
    b.op.out.strides[0] = 24;                           /* and how far the rows are apart */
    assert_true(td_reference_batch_fits(&a.op, &b.op));
    op_case_release(&a);
    op_case_release(&b);
}

/* A bias is added after the sum was rounded to the output's type: bfloat16 is no float16. */
static void outputs_of_another_type_do_not_fit(void **state)
{
    struct op_case a, b;

    (void)state;
    case_gemm(&a, TD_DT_F16, 3, 8, 16, false, 0, true);
    case_gemm(&b, TD_DT_F16, 3, 8, 16, false, 0, true);
    b.op.out.dtype = TD_DT_BF16;
    assert_false(td_reference_batch_fits(&a.op, &b.op));
    op_case_release(&a);
    op_case_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ops_of_one_form_fit), cmocka_unit_test(outputs_of_another_type_do_not_fit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
