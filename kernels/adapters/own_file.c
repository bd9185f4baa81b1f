/* own_file.c - the file of rows of one's own, read and checked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/own_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Read the text. False: *why is set. One byte more than may be there is asked for, so that
 * td_own_rows_read() sees a file that is too large. */
static bool read_text(const char *path, struct td_own_file *out, char *why, size_t size)
{
    FILE *f = fopen(path, "rbe");
    bool ok;

    if (!f) {
        snprintf(why, size, "%s: cannot open: %s", path, strerror(errno));
        return false;
    }
    out->n = fread(out->text, 1, sizeof out->text, f);
    ok = !ferror(f);
    if (!ok)
        snprintf(why, size, "%s: cannot read: %s", path, strerror(errno));
    fclose(f);
    return ok;
}

bool td_own_file_read(const char *path, struct td_own_file *out, char *why, size_t size)
{
    struct td_own_error err;

    if (!read_text(path, out, why, size))
        return false;
    if (td_own_rows_read(out->text, out->n, &out->rows, &err))
        return true;
    if (err.line)
        snprintf(why, size, "%s:%d: %s", path, err.line, err.text);
    else
        snprintf(why, size, "%s: %s", path, err.text);
    return false;
}
