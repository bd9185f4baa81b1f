/* proc_files.c - read a file that /proc has of a process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/proc_files.h"

#include <stdio.h>

#include "common/fs.h"

bool client_read_proc(pid_t pid, const char *name, struct td_buf *out)
{
    char path[64];

    td_buf_clear(out);
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    if (!td_fs_read(path, out->max - 1, out, NULL) && out->data)
        return true;
    td_buf_clear(out);
    return false;
}
