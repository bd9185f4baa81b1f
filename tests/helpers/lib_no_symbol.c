/* lib_no_symbol.c - a library that is no build of the kernels.
 * SPDX-License-Identifier: Apache-2.0 */
int td_test_something_else(void);

int td_test_something_else(void)
{
    return 1;
}
