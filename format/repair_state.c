/* repair_state.c - where the files of a fixture that is repaired are, and what is said about them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/repair_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/temp_file.h"
#include "common/lfs.h"
#include "format/own_files.h"

#define MOST_ASIDE 1000

int repair_path(const struct repair *r, int file, char *out, struct td_error *err)
{
    return td_fs_join(out, TD_PATH_MAX, r->dir, td_file_names[file], err);
}

void repair_report(const struct repair *r, const char *fmt, ...)
{
    char text[TD_PATH_MAX + 512];
    va_list ap;

    if (!r->report)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->report(r->report_ctx, text);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !lstat(a, &x) && !lstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A repair that was interrupted may have given it the name already. */
static int link_aside(const char *path, char *aside, size_t size)
{
    int i;

    for (i = 1; i <= MOST_ASIDE; i++) {
        const int n = i == 1 ? snprintf(aside, size, "%s.aside", path)
                             : snprintf(aside, size, "%s.aside-%d", path, i);

        if (n >= (int)size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (!link(path, aside) || (errno == EEXIST && is_same_file(path, aside)))
            return 0;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

int repair_keep_aside(const struct repair *r, const char *path, int file, struct td_error *err)
{
    const enum td_own own = td_own_file(path, file, NULL);
    char aside[TD_PATH_MAX];
    int rc;

    if (own == TD_OWN_POINTER)
        return td_fail(err, TD_ENOTFOUND, "%s: " TD_LFS_POINTER, path);
    if (own != TD_OWN_THEIRS)
        return 0;
    if (link_aside(path, aside, sizeof aside))
        return td_fail(err, TD_EIO, "%s: nothing in it was written by Tapedeck, and it cannot be kept as %s: %s; move it away",
                       path, aside, strerror(errno));
    rc = td_sync_folder(r->dir, err);
    if (!rc)
        repair_report(r, "%s: nothing in it was written by Tapedeck; kept as %s", path, aside);
    return rc ? rc : 1;
}
