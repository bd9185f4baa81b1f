/* lib_no_symbol.c - a valid library without td_gptq_gemm: `--build` must refuse it by name.
 * SPDX-License-Identifier: Apache-2.0 */
int td_test_something_else(void);

int td_test_something_else(void)
{
    return 1;
}
