/* fuzz_own_rows.c - fuzz the reader of rows of one's own (--ops), which also runs inside the server:
 * no read past the text, names that end, an error with a line and a sentence.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernels/adapters/own_rows.h"
#include "tests/fuzz/fuzz_main.h"

#define ENDS(text) (memchr(text, '\0', sizeof(text)) != NULL)

static void check_row(const struct td_own_row *row)
{
    int i;

    if (!row->kind || !row->layout || !row->rounding || !row->name[0] || !ENDS(row->name) || !ENDS(row->out) ||
        !ENDS(row->bits.arg) || !ENDS(row->group_size.arg) || row->n_fixed < 0 || row->n_fixed > TD_OWN_FIXED ||
        row->n_params < 0 || row->n_params > TD_GPU_PARAMS || (row->is_kernel && (!row->n_params || !row->type)))
        abort();
    for (i = 0; i < TD_OWN_ROLES; i++)
        if (!ENDS(row->arg[i]) || (!row->is_kernel && i < row->kind->n_needed && !row->arg[i][0]))
            abort();
    for (i = 0; i < row->n_fixed; i++)
        if (!row->fixed[i].arg[0] || !ENDS(row->fixed[i].arg) || !ENDS(row->fixed[i].text) ||
            row->fixed[i].ndim < 0 || row->fixed[i].ndim > TD_OWN_DIMS)
            abort();
    for (i = 0; i < row->n_params; i++)
        if (!row->param[i].name[0] || !ENDS(row->param[i].name) || !row->param[i].bytes)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct td_own_rows rows;
    struct td_own_error err;
    char *text = malloc(n + 1);       /* exactly: a sanitizer sees a read past its end */
    int i;

    if (n)
        memcpy(text, data, n);
    if (td_own_rows_read(text, n, &rows, &err)) {
        if (rows.n < 1 || rows.n > TD_OWN_ROWS || rows.n_loads < 0 || rows.n_loads > TD_OWN_LOADS)
            abort();
        for (i = 0; i < rows.n; i++)
            check_row(&rows.row[i]);
        for (i = 0; i < rows.n_loads; i++)
            if (!rows.load[i].name[0] || !ENDS(rows.load[i].name))
                abort();
    } else if (!err.text[0] || !ENDS(err.text) || err.line < 0) {
        abort();
    }
    free(text);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/own_rows", 100000)
