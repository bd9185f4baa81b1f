/* repair_state.c - where the files of a fixture that is repaired are, and what is said about them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/repair_state.h"

#include <stdarg.h>
#include <stdio.h>

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
