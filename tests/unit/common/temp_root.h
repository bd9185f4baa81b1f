/* temp_root.h - a folder of a test's own, for setup and teardown of its group.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_COMMON_TEMP_ROOT_H
#define TD_TESTS_UNIT_COMMON_TEMP_ROOT_H

#include <stdio.h>
#include <stdlib.h>

#include "common/fs.h"

static char root[] = "/tmp/td-test-XXXXXX";

static inline int setup(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

/* The path of a file in it; good for four calls. */
static inline const char *at(const char *name)
{
    static char out[4][200];
    static int turn;
    char *p = out[turn++ & 3];

    snprintf(p, 200, "%s/%s", root, name);
    return p;
}

#endif
