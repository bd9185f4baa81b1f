/* lfs.c - a file that git LFS keeps elsewhere, of which only the pointer was fetched.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pointer is a small text whose first line names the version of its form
 * (github.com/git-lfs/git-lfs, docs/spec.md). */
#include "format/lfs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool td_file_is_lfs_pointer(const char *path)
{
    static const char BEGIN[] = "version https://git-lfs.github.com/spec/";
    char head[sizeof BEGIN - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
              !memcmp(head, BEGIN, sizeof head);

    if (fd >= 0)
        close(fd);
    return is;
}
