/* torch_rows.h - what an operator of torch means: a row for each, by the names of its arguments.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Arguments are found by name in the schema that the library registered, never by position: a later
 * version may add some. An operator whose schema lacks a name of its row is counted, as one without
 * a row is. */
#ifndef TD_RECORDER_TAP_TORCH_TORCH_ROWS_H
#define TD_RECORDER_TAP_TORCH_TORCH_ROWS_H

#include "kernels/adapters/own_row.h"
#include "recorder/tap/gpu/gpu_kernels.h"
#include "recorder/tap/torch/torch_schema.h"

#pragma GCC visibility push(hidden)

#define TAP_TORCH_ROLES 11
#define TAP_TORCH_NUMBERS 4
#define TAP_TORCH_TURNED 5
#define TAP_TORCH_ABSENT 4
#define TAP_TORCH_FIXED 2
#define TAP_TORCH_SAYS 2

enum tap_torch_does {
    TAP_TORCH_MULTIPLIES,             /* C [m, n] = A [m, k] by W */
    TAP_TORCH_REPACKS,                /* it returns W in the layout that such an operator reads */
    TAP_TORCH_COMPUTES                /* something beside products: recorded with --all-ops only */
};

/* What is rounded before the product, to A's type. */
enum tap_torch_rounds {
    TAP_TORCH_ROUNDS_W,               /* each weight once; scaled zero points come rounded before */
    TAP_TORCH_ROUNDS_W_IN_GROUPS,     /* the same where there is more than one group */
    TAP_TORCH_ROUNDS_W_OF_MANY_ROWS   /* where vLLM's gptq_gemm dequantises W for cuBLAS */
};

/* A tensor among the arguments. Optional ones may be None, or have no elements, but for A and the
 * first weight. A number without dimensions is a vector of one. */
struct tap_torch_role { const char *arg, *role; enum td_gpu_use use; };


struct tap_torch_row {
    const char *name;                 /* "_C::machete_mm" */
    enum tap_torch_does does;
    /* In the order in which the op has them; the first one of use TD_GPU_IN is A, or the W that is
     * repacked. The first weight may have any layout if it is not among by_columns, the others are
     * row-major. */
    struct tap_torch_role roles[TAP_TORCH_ROLES];
    const char *by_columns[TAP_TORCH_TURNED]; /* arguments that lie column after column: the op has
                                                 their transpose */
    /* The rest of a product. */
    const char *kind, *layout;        /* of the op; of W at run time */
    const char *out;                  /* the argument that C is written into; NULL: C is returned */
    const char *n_of;                 /* the tensor whose last dimension is n; NULL: the kind's reader
                                         knows n (torch_product_kinds.h) */
    const char *type;                 /* int: vLLM's ScalarType.id of W */
    const char *bits;                 /* int: bits of W, where no type says it */
    int w_bits;                       /* the same, where no argument says it */
    const char *group_size;           /* int?: inputs that share a scale; None and -1: all. NULL: the
                                         number of rows of "scales" says it */
    bool scaled_zeros;                /* zero points come as floats, minus their scales times them;
                                         else as integers in words */
    const char *v2;                   /* bool: zero points are stored as they are, not less 1 */
    enum tap_torch_rounds rounds;
    bool bias_after;                  /* it adds a bias after the product was rounded */
    struct { const char *arg; bool value; } fixed[TAP_TORCH_FIXED]; /* bools: with another value the
                                         operator computes something else */
    const char *number[TAP_TORCH_NUMBERS]; /* int or bool: what else the kind's reader reads, in the
                                              order in which it knows them */
    const char *absent[TAP_TORCH_ABSENT]; /* arguments that must be None: given, they change what the
                                             operator computes */
    /* Of an operator that COMPUTES: its roles have its outputs, too (TD_GPU_OUT), in the order in which
     * attribute "part" counts them. An argument that is written over what it held has two roles. A
     * and the first output are always there; others may be None. Without an A, its first role says m. */
    const char *last_of;              /* the tensor whose last dimension is n; NULL: a number is n */
    const char *attr[TAP_TORCH_NUMBERS]; /* the attribute that each of `number` becomes, or "n" */
    struct td_gpu_attr says[TAP_TORCH_SAYS]; /* attributes that every call has */
    const char *third;                /* attribute that is 1 where the third output is not None */
    const char *epsilon;              /* float: goes into the op as input "eps" */
    const char *cache_type;           /* str: what a cache that it writes into holds, "auto" or "fp8_e4m3". Its
                                         outputs are the rows of that cache which role "slots" names */
    bool returns;                     /* its one output is its result: [m, n], of the type of last_of. Of one
                                         that is large, every so many rows are recorded */
    bool once_a_step;                 /* its weights are used once in a step */
    bool makes_w;                     /* its result is W as floats: a library's product with it is an op of kind
                                         gptq_gemm (torch_made_w.h) */
    const struct td_own_row *own;     /* what a file of the user's says (--ops), and the members above
                                         do not; NULL: a row of ours */
};

/* A row beside the schema of the operator that was registered. */
struct tap_torch_meaning {
    const struct tap_torch_row *row;
    /* Places of the arguments; -1: the row has no such. */
    int role[TAP_TORCH_ROLES], out, n_of, type, bits, group_size, v2, number[TAP_TORCH_NUMBERS];
    int absent[TAP_TORCH_ABSENT], fixed[TAP_TORCH_FIXED], last_of, epsilon, cache_type;
    int own_bits, own_group_size, own_top_k, own_block_size, own_mul_topk_weights;
    int own_fixed[TD_OWN_FIXED];
    const struct tap_torch_schema *schema;
    struct td_gpu_adapter adapter;    /* the operator in the place of a kernel */
    struct td_gpu_adapter turned;     /* the same, of an own row whose W lies in the other order */
    struct td_gpu_adapter product;    /* the same, of a product with the W that it makes */
    struct tap_gpu_kernel kernel;
};

/* What the operator of that name and schema means. Allocates; never freed. NULL: there is no row
 * for it, or the schema lacks one of the row's names. */
const struct tap_torch_meaning *tap_torch_meaning_of(const char *name,
                                                     const struct tap_torch_schema *schema);

/* The same of a row that is not in the table. row is never freed. */
const struct tap_torch_meaning *tap_torch_meaning_of_row(const struct tap_torch_row *row,
                                                         const struct tap_torch_schema *schema);

/* The name of an operator whose row does not fit what was registered; NULL: all do.
 *   beside : look at those that COMPUTE, too */
const char *tap_torch_row_that_does_not_fit(bool beside);

/* Are calls of the operator recorded in this arm? m may be NULL. */
bool tap_torch_is_recorded(const struct tap_torch_meaning *m);
/* The same, or are they a part of ops? */
bool tap_torch_is_in_ops(const struct tap_torch_meaning *m);

#pragma GCC visibility pop
#endif
