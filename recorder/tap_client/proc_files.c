/* proc_files.c - read a file that /proc has of a process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/proc_files.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

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

bool client_has_ended(pid_t pid)
{
    struct td_buf b = TD_BUF_INIT(1u << 20);
    const char *p = client_read_proc(pid, "stat", &b) ? strrchr(td_buf_str(&b), ')') : NULL;
    bool ended = !p || !strncmp(p, ") Z", 3);

    td_buf_release(&b);
    return ended;
}

bool client_has_thread(pid_t pid, const char *name)
{
    char path[64], file[64];
    struct td_buf b = TD_BUF_INIT(4096);
    struct dirent *e;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    d = opendir(path);
    while (d && !found && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(file, sizeof file, "task/%.20s/comm", e->d_name);
        if (client_read_proc(pid, file, &b)) /* with a line end */
            found = b.len == strlen(name) + 1 && !strncmp(b.data, name, b.len - 1);
    }
    if (d)
        closedir(d);
    td_buf_release(&b);
    return found;
}
