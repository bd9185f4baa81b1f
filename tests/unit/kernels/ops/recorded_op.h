/* recorded_op.h - ops over recorded bytes (ggml_data.h), their reference, and what a check refuses.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_OPS_RECORDED_OP_H
#define TD_TESTS_UNIT_KERNELS_OPS_RECORDED_OP_H

#include "tests/unit/kernels/ops/ggml_data.h"
#include "tests/unit/kernels/ops/op_case.h"

/* A tensor over recorded bytes; d1 < 0: one dimension. */
static inline void put(struct td_op_call *op, const char *role, enum td_dtype dt, int64_t d0, int64_t d1, const struct ggml_record *r, int array)
{
    struct td_tensor *t = &op->in[op->n_in++];

    *t = (struct td_tensor){.dtype = dt, .ndim = d1 < 0 ? 1 : 2, .shape = {d0, d1}, .strides = {d1 < 0 ? 1 : d1, 1},
                            .data = (void *)(uintptr_t)r->array[array], .size_bytes = r->size[array], .align = 4};
    snprintf(t->role, sizeof t->role, "%s", role);
    assert_int_equal(t->size_bytes, (size_t)(d0 * (d1 < 0 ? 1 : d1)) * td_dtype_size(dt));
}

static inline void set_out(struct td_op_call *op, enum td_dtype dt, int64_t m, int64_t n)
{
    op->out = (struct td_tensor){.role = "c", .dtype = dt, .ndim = 2, .shape = {m, n}, .strides = {n, 1}, .size_bytes = (size_t)(m * n) * td_dtype_size(dt)};
}

static inline void start(struct td_op_call *op, const char *kind, const char *rounding, const int64_t *sizes)
{
    static const char *const names[] = {"m", "n", "k"};

    memset(op, 0, sizeof *op);
    snprintf(op->kind, sizeof op->kind, "%s", kind);
    snprintf(op->act_rounding, sizeof op->act_rounding, "%s", rounding);
    for (op->n_attrs = 0; op->n_attrs < 3; op->n_attrs++) {
        strcpy(op->attrs[op->n_attrs].name, names[op->n_attrs]);
        op->attrs[op->n_attrs].value = sizes[op->n_attrs];
    }
}

static inline struct td_op_ref reference(const struct td_op_call *op)
{
    struct td_error err = {0};
    struct td_op_ref ref;

    if (td_op_kind_find(op->kind)->reference(op, &ref, &err))
        fail_msg("%s: %s", op->kind, err.msg);
    return ref;
}

/* Of the op t, changed. */
#define REFUSES(change, want, sentence)                                              \
    do {                                                                             \
        struct td_op_call op = t.op;                                                 \
        struct td_error err = {0};                                                   \
        change;                                                                      \
        if (td_op_kind_find(op.kind)->check(&op, &err) != want || !strstr(err.msg, sentence)) \
            fail_msg("\"%s\" (%d) is not \"%s\"", err.msg, err.code, sentence);       \
    } while (0)

#endif
