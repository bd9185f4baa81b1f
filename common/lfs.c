/* lfs.c - a file that git LFS keeps elsewhere, of which only the pointer was fetched.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pointer is a small text whose first line names the version of its form
 * (github.com/git-lfs/git-lfs, docs/spec.md). */
#include "common/lfs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"

static bool begins_as_pointer(int fd)
{
    static const char BEGIN[] = "version https://git-lfs.github.com/spec/";
    char head[sizeof BEGIN - 1];
    bool is = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
              !memcmp(head, BEGIN, sizeof head);

    if (fd >= 0)
        close(fd);
    return is;
}

bool td_pack_is_lfs_pointer(const char *path)
{
    return begins_as_pointer(td_fs_open_regular(path, NULL));
}

bool td_member_is_lfs_pointer(const char *path)
{
    return begins_as_pointer(td_fs_open_member(path, O_RDONLY, NULL));
}
