/* own_rows.h - rows of one's own: a text file that says what operators of torch, or kernels, compute.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     load = build/libmine.so
 *
 *     [operator mine::w4a16_gemm]        # as its library registered it
 *     kind       = gptq_gemm
 *     a          = x                     # role = name of the argument
 *     qweight    = w
 *     scales     = s
 *     bits       = 4
 *     rounding   = weight
 *     fixed fast = true                  # an argument that has this value
 *
 *     [kernel mine_gemm]                 # as its source names it
 *     kind       = gemm
 *     type       = F16
 *     params     = a:8 w:8 c:8 m:4 n:4 k:4 -:4
 *
 * docs/own-operators.md says what each key means. The file is read by `record`, by `replay` and by
 * the tap inside somebody's server: nothing here allocates, and everything is bounded. */
#ifndef TD_KERNELS_ADAPTERS_OWN_ROWS_H
#define TD_KERNELS_ADAPTERS_OWN_ROWS_H

#include <stddef.h>

#include "kernels/adapters/own_row.h"

#pragma GCC visibility push(hidden)

#define TD_OWN_FILE_MAX (64u << 10)   /* bytes of a file */
#define TD_OWN_ROWS 32                /* sections of a file */
#define TD_OWN_PATH 512               /* of what is loaded */
#define TD_OWN_LOADS 8

struct td_own_rows {
    struct td_own_row row[TD_OWN_ROWS]; int n;
    struct { bool is_module; char name[TD_OWN_PATH]; } load[TD_OWN_LOADS]; int n_loads; /* for
                                                                 replay: libraries, and modules */
};

/* Read a file's text. False: *err says in which line what is wrong, and *out is half filled. Any
 * thread. */
bool td_own_rows_read(const char *text, size_t n, struct td_own_rows *out, struct td_own_error *err);

#pragma GCC visibility pop
#endif
