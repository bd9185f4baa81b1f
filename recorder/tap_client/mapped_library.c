/* mapped_library.c - open the file of a library as a running process has it mapped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/mapped_library.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "recorder/tap_client/proc_files.h"

#define MAPS_BYTES ((size_t)64 << 20)

/* Does the process have this file mapped? Device numbers of overlays differ between stat and maps:
 * the inode alone must do. */
static bool is_mapped(pid_t pid, const struct stat *st)
{
    struct td_buf b = TD_BUF_INIT(MAPS_BYTES);
    const char *line;
    bool found = false;

    if (client_read_proc(pid, "maps", &b))
        for (line = td_buf_str(&b); line && *line && !found;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
            unsigned long long inode = 0;

            found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 &&
                    inode == (unsigned long long)st->st_ino;
        }
    td_buf_release(&b);
    return found;
}

/* Open a file if the process has it mapped; else -1. */
static int open_mapped(pid_t pid, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) || !is_mapped(pid, &st))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int client_open_mapped_library(pid_t pid, const char *library)
{
    char path[TD_PATH_MAX];
    int n = snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, library), fd = -1;

    if (library[0] == '/' && n < (int)sizeof path)
        fd = open_mapped(pid, path);
    return fd < 0 && library[0] == '/' ? open_mapped(pid, library) : fd;
}
