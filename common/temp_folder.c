/* temp_folder.c - the temporary folder of a run, and those that killed runs left behind.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/temp_folder.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/temp_sweep.h"

#define RANDOM "XXXXXX"

static bool has_kind(const char *name)
{
    static const char *const kinds[] = {TD_TEMP_GATE, TD_TEMP_PACK};
    size_t i, n;

    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        n = strlen(kinds[i]);
        if (!strncmp(name, kinds[i], n) && strlen(name + n) == sizeof RANDOM - 1)
            return true;
    }
    return false;
}

int td_temp_folder_make(const char *kind, char *out, size_t n, int *lock)
{
    const char *tmp = getenv("TMPDIR"), *parent = tmp && *tmp ? tmp : "/tmp";

    *lock = -1;
    td_temp_sweep(parent, has_kind);
    if (snprintf(out, n, "%s/%s" RANDOM, parent, kind) >= (int)n)
        return TD_ELIMIT;
    if (!mkdtemp(out))
        return TD_EIO;
    *lock = td_temp_own_folder(out);
    return TD_OK;
}
