/* gpu_op.c - an op as it is put together from the launches that computed it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/gpu/gpu_op.h"

static uint8_t *scratch;              /* for the gathered operands of ops of several launches */
static uint64_t scratch_bytes;

static void set_operand(struct tap_operand *to, const struct td_gpu_operand *o)
{
    int64_t dense;
    int i;

    *to = (struct tap_operand){.role = o->role,
                               .dtype = o->dtype,
                               .ndim = o->ndim,
                               .bytes = o->bytes,
                               .address = o->address,
                               .data = (const void *)(uintptr_t)o->address};
    for (i = 0; i < o->ndim; i++)
        to->shape[i] = o->shape[i];
    for (i = o->ndim - 1, dense = 1; i >= 0; dense *= o->shape[i--])
        to->strides[i] = dense;
}

static uint64_t bytes_of_all(const struct tap_gpu_op *op, int operand)
{
    uint64_t n = 0;
    int i;

    for (i = 0; i < op->n; i++)
        n += op->launch[i].work.op[operand].bytes;
    return n;
}

/* Copy the rows of all launches, one after the other. */
static void gather_rows(const struct tap_gpu_op *op, int operand, uint8_t *to)
{
    int i;

    for (i = 0; i < op->n; i++) {
        const struct tap_gpu_entry *e = &op->launch[i];

        memcpy(to, tap_gpu_stage_bytes_at(e->op_at[operand]), e->work.op[operand].bytes);
        to += e->work.op[operand].bytes;
    }
}

/* Room for the gathered operands of an op of several launches. */
static bool make_scratch(uint64_t n)
{
    uint8_t *p;

    if (n <= scratch_bytes)
        return true;
    p = realloc(scratch, n);
    if (!p)
        return false;
    scratch = p;
    scratch_bytes = n;
    return true;
}

/* Describe an input or the output, with the rows of all launches. *used: bytes of the scratch. */
static void set_copied(struct tap_operand *to, const struct tap_gpu_op *op, int operand,
                       int64_t rows, uint64_t *used)
{
    const struct tap_gpu_entry *first = &op->launch[0];
    const struct td_gpu_operand *o = &first->work.op[operand];

    set_operand(to, o);
    to->data = tap_gpu_stage_bytes_at(first->op_at[operand]);
    if (op->n == 1)
        return;
    to->bytes = bytes_of_all(op, operand);
    to->shape[0] = rows;
    to->data = scratch + *used;
    gather_rows(op, operand, scratch + *used);
    *used += tap_round_up(to->bytes, 64);
}

static void add_attr(struct tap_call *call, const char *name, int64_t value)
{
    call->attrs[call->n_attrs++] = (struct td_attr_view){name, value};
}

static void set_attrs(struct tap_call *call, const struct td_gpu_work *w, int64_t rows, int part)
{
    int i;

    add_attr(call, "m", rows);
    add_attr(call, "n", w->n);
    if (!w->beside)
        add_attr(call, "k", w->k);
    if (tap_gpu_gemm_outputs(w) > 1)
        add_attr(call, "part", part);
    for (i = 0; i < w->n_attr; i++)
        add_attr(call, w->attr[i].name, w->attr[i].value);
    if (!strcmp(w->adapter->kind, "gemm"))
        add_attr(call, "trans_b", 1);  /* W lies as a checkpoint has it */
    if (!w->bits)
        return;
    add_attr(call, "bits", w->bits);
    add_attr(call, "group_size", w->group_size);
    add_attr(call, "zero_offset", w->zero_offset);
    add_attr(call, "act_order", w->act_order);
}

/* The half of the GEMM that a library computed: how it launches its kernels is not known. */
static void add_library_call(struct tap_call *call, struct tap_call_launch *launches,
                             const struct tap_gpu_entry *e, int64_t rows)
{
    if (e->library_function && call->n_launches < TAP_MAX_LAUNCHES) /* the sender left room */
        launches[call->n_launches++] =
            (struct tap_call_launch){.rows = {0, rows}, .symbol = e->library_function};
}

/* What an operator launched, in place of its call: as if the launches had been recorded. */
static int set_inner_launches(const struct tap_gpu_entry *e,
                              struct tap_call_launch launches[TAP_MAX_LAUNCHES])
{
    const struct tap_gpu_inner *in = &e->inner;
    int64_t row = 0;
    int i;

    for (i = 0; i < in->n; i++) {
        const int64_t rows = in->library_function ? e->work.m : in->launch[i].rows;

        launches[i] = (struct tap_call_launch){
            .rows = {row, row + rows},
            .shared_bytes = in->launch[i].shared_bytes,
            .symbol = in->launch[i].kernel == in->launch[0].kernel ? NULL
                                                                   : in->launch[i].kernel->symbol};
        memcpy(launches[i].grid, in->launch[i].grid, sizeof launches[i].grid);
        memcpy(launches[i].block, in->launch[i].block, sizeof launches[i].block);
        row += rows;
    }
    if (in->library_function)
        launches[i++] = (struct tap_call_launch){.rows = {0, row}, .symbol = in->library_function};
    return i;
}

static int64_t set_launches(const struct tap_gpu_op *op,
                            struct tap_call_launch launches[TAP_MAX_LAUNCHES])
{
    int64_t rows = 0;
    int i;

    for (i = 0; i < op->n; i++) {
        const struct tap_gpu_entry *e = &op->launch[i];

        launches[i] = (struct tap_call_launch){
            .rows = {rows, rows + e->work.m},
            .shared_bytes = e->launch.shared_bytes,
            .flags = e->launch.slot ? TD_LAUNCH_IN_GRAPH : 0,
            .symbol = e->kernel == op->launch[0].kernel ? NULL : e->kernel->symbol};
        memcpy(launches[i].grid, e->launch.grid, sizeof launches[i].grid);
        memcpy(launches[i].block, e->launch.block, sizeof launches[i].block);
        rows += e->work.m;
    }
    return rows;
}

static void set_operands(struct tap_call *call, const struct tap_gpu_op *op, int64_t rows, int part)
{
    const struct td_gpu_work *w = &op->launch[0].work;
    uint64_t used = 0;
    int i;

    for (i = 0; i < w->n_op; i++) {
        if (!w->op[i].address)
            continue;
        if (w->op[i].use == TD_GPU_WEIGHT && call->n_w < TAP_MAX_WEIGHTS)
            set_operand(&call->w[call->n_w++], &w->op[i]);
        else if (w->op[i].use == TD_GPU_IN && call->n_in < TAP_MAX_INPUTS)
            set_copied(&call->in[call->n_in++], op, i, rows, &used);
        else if (tap_gpu_operand_is_output(&w->op[i]) && !part--)
            set_copied(&call->out, op, i, rows, &used);
    }
}

/* A number of the call, as a tensor without dimensions. */
static void add_scalar(struct tap_call *call, const struct td_gpu_work *w)
{
    if (w->scalar && call->n_in < TAP_MAX_INPUTS)
        call->in[call->n_in++] = (struct tap_operand){.role = w->scalar,
                                                      .dtype = "F32",
                                                      .data = &w->scalar_value,
                                                      .bytes = sizeof w->scalar_value};
}

static uint64_t scratch_needed(const struct tap_gpu_op *op)
{
    uint64_t n = 0;
    int i;

    for (i = 0; op->n > 1 && i < op->launch[0].work.n_op; i++) {
        enum td_gpu_use use = op->launch[0].work.op[i].use;

        /* Weights are not gathered, and are large. */
        if (use == TD_GPU_IN || use == TD_GPU_OUT || use == TD_GPU_OUT_ZEROED)
            n += tap_round_up(bytes_of_all(op, i), 64);
    }
    return n;
}

bool tap_gpu_op_describe(const struct tap_gpu_op *op, int part, struct tap_call *call)
{
    static struct tap_call_launch launches[TAP_MAX_LAUNCHES];
    const struct tap_gpu_entry *first = &op->launch[0];

    if (!make_scratch(scratch_needed(op)))
        return false;
    *call = (struct tap_call){.rounding = first->work.rounding ? first->work.rounding : "none"};
    call->kind = first->library_function ? "gptq_gemm" : first->work.adapter->kind;
    call->layout = first->work.adapter->layout;
    call->symbol = first->kernel->symbol;
    call->rows = set_launches(op, launches);
    call->launches = launches;
    call->n_launches = op->n;
    add_library_call(call, launches, first, call->rows);
    if (first->inner.n) {
        call->symbol = first->inner.launch[0].kernel->symbol;
        call->n_launches = set_inner_launches(first, launches);
    }
    set_attrs(call, &first->work, call->rows, part);
    set_operands(call, op, call->rows, part);
    add_scalar(call, &first->work);
    call->dump_reason = first->flight;
    call->fingerprint = first->launch.fingerprint;
    return true;
}
