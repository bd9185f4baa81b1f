/* new_folder.c - make a folder that nobody else makes at the same moment.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/new_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/outside_fixtures.h"

#define MOST 1000

int td_new_folder(const char *name, char out[TD_PATH_MAX], struct td_error *err)
{
    int i, n, rc = td_outside_fixtures(name, err);

    if (!rc)
        rc = td_fs_mkdirs_above(name, err);
    for (i = 1; !rc && i <= MOST; i++) {
        n = i == 1 ? snprintf(out, TD_PATH_MAX, "%s", name)
                   : snprintf(out, TD_PATH_MAX, "%s-%d", name, i);
        if (n >= TD_PATH_MAX)
            return td_fail(err, TD_ELIMIT, "%.100s...: path too long", name);
        if (!mkdir(out, 0700))
            return TD_OK;
        if (errno != EEXIST)
            rc = td_fail(err, TD_EIO, "%s: cannot create folder: %s", out, strerror(errno));
    }
    return rc ? rc : td_fail(err, TD_EEXIST, "%s: there are a thousand of this name; name one with -o",
                             name);
}
