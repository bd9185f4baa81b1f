/* own_row.h - a row of one's own: what an operator of torch, or a kernel, computes, as a text file
 * says it (own_rows.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_ADAPTERS_OWN_ROW_H
#define TD_KERNELS_ADAPTERS_OWN_ROW_H

#include "kernels/adapters/adapter.h"
#include "kernels/adapters/own_kinds.h"

#define TD_OWN_NAME 120               /* bytes of an operator's or a kernel's name, with the NUL */
#define TD_OWN_WORD 48                /* of an argument's name, or another short value */
#define TD_OWN_FIXED 12               /* arguments of fixed value of an operator */
#define TD_OWN_DIMS 4

/* A number that the file gives, or the name of the operator's argument that holds it. */
struct td_own_number { bool given; int64_t value; char arg[TD_OWN_WORD]; };

enum td_own_value { TD_OWN_NONE, TD_OWN_BOOL, TD_OWN_INT, TD_OWN_FLOAT, TD_OWN_TEXT, TD_OWN_ZEROS };
struct td_own_fixed {
    char arg[TD_OWN_WORD];
    enum td_own_value is;
    int64_t number;                   /* BOOL, INT */
    double real;                      /* FLOAT */
    char text[TD_OWN_WORD];           /* TEXT; of ZEROS: the element type, "I32" */
    int64_t shape[TD_OWN_DIMS];       /* ZEROS: a tensor of zeros, which the operator may write */
    int ndim;
};

struct td_own_param { char name[TD_OWN_WORD]; uint8_t bytes; };

struct td_own_row {
    int line;                         /* of the section's title */
    bool is_kernel;
    char name[TD_OWN_NAME];
    const struct td_own_kind *kind;
    const char *layout, *rounding;    /* static. Rounding "weight": to the type of A */
    struct td_own_number bits, group_size, zero_offset; /* without group_size: as the rows of the
                                                           scales say */
    struct td_own_number top_k, block_size, mul_topk_weights, round_topk_weights; /* of a routed kind; without
                                         mul_topk_weights: 1 where topk_weights are there */
    /* Of an operator: */
    char arg[TD_OWN_ROLES][TD_OWN_WORD]; /* by role of the kind; "": not given */
    char out[TD_OWN_WORD];            /* the argument that it writes C to; "": it returns C */
    struct td_own_fixed fixed[TD_OWN_FIXED]; int n_fixed;
    const char *type;                 /* of a C that is returned, where it is not A's; of a kernel: of A,
                                         C and 16-bit weights. "F16"; static */
    /* Of a kernel: */
    bool adds;                        /* it adds to C, which the caller sets to zero before */
    struct td_own_param param[TD_GPU_PARAMS]; int n_params; /* name "-": not read */
};

/* All names of arguments of an operator that the row has, "" where it has none. */
#define TD_OWN_ARGUMENTS (TD_OWN_ROLES + TD_OWN_FIXED + 6)
int td_own_row_arguments(const struct td_own_row *row, const char *name[TD_OWN_ARGUMENTS]);

struct td_own_error { int line; char text[400]; }; /* line 0: of the whole file */

#endif
