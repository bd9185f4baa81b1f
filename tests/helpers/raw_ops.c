/* raw_ops.c - write a fixture of ops whose tensors lie in files, so that another program (numpy,
 * torch) can compute the numbers. raw_ops.py writes the description from Python.
 * SPDX-License-Identifier: Apache-2.0
 *
 * raw_ops DIR < DESCRIPTION       an op is the lines from "op" to "out":
 *   op STEP KIND LAYER SYMBOL ROUNDING
 *   attr NAME VALUE
 *   in ROLE DTYPE ROWSxCOLS LD FILE, or MATRICESxROWSxCOLS, dense
 *   out ROLE DTYPE ROWSxCOLS LD FILE
 * LD: elements from one row to the next, 0 if dense. COLS 0: one dimension. FILE: the raw bytes. */
#include "tests/helpers/op_writer.h"

static void *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    void *data;

    op_writer_check(f && !fseek(f, 0, SEEK_END) ? 0 : TD_EIO, path);
    *size = (size_t)ftell(f);
    rewind(f);
    data = malloc(*size + 1);
    op_writer_check(data && fread(data, 1, *size, f) == *size ? 0 : TD_EIO, path);
    fclose(f);
    return data;
}

static void read_tensor(const char *line, struct td_tensor *t)
{
    char dtype[TD_OP_MAX_DTYPE], path[256];
    long long rows, cols, ld, last;

    memset(t, 0, sizeof *t);
    if (sscanf(line, "%*s %23s %15s %lldx%lldx%lld %lld %255s", t->role, dtype, &rows, &cols, &last, &ld, path) == 7) {
        *t = (struct td_tensor){.ndim = 3, .shape = {rows, cols, last}, .strides = {cols * last, last, 1}, .align = 64};
        op_writer_check(sscanf(line, "%*s %23s", t->role) == 1 && !ld ? 0 : TD_EINVAL, line);
        t->dtype = td_dtype_parse(dtype);
        t->data = read_all(path, &t->size_bytes);
        return;
    }
    op_writer_check(sscanf(line, "%*s %23s %15s %lldx%lld %lld %255s", t->role, dtype, &rows, &cols, &ld, path) == 6 ? 0 : TD_EINVAL, line);
    t->dtype = td_dtype_parse(dtype);
    t->ndim = cols ? 2 : 1;
    t->shape[0] = rows;
    t->shape[1] = t->strides[1] = cols;
    t->strides[0] = !cols ? 1 : ld ? ld : cols;
    if (cols)
        t->strides[1] = 1;
    t->align = 64;
    t->data = read_all(path, &t->size_bytes);
}

static void free_op(struct td_op_call *op)
{
    while (op->n_in > 0)
        free(op->in[--op->n_in].data);
    free(op->out.data);
    memset(op, 0, sizeof *op);
}

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "record"};
    char line[512], layer[128] = "", symbol[64] = "";
    struct td_error err = {0};
    struct td_op_call op = {0};
    struct op_writer rec = {0};
    struct td_writer *w = NULL;

    op_writer_check(argc == 2 ? td_writer_create(argv[1], &opt, &w, &err) : TD_EINVAL, "raw_ops DIR < description");
    td_writer_fact_str(w, "server", "model", "raw");
    while (fgets(line, sizeof line, stdin)) {
        struct td_attr *a = &op.attrs[op.n_attrs];

        if (sscanf(line, "op %ld %31s %127s %63s %31s", &rec.step, op.kind, layer, symbol, op.act_rounding) == 5)
            continue;
        if (op.n_attrs < TD_OP_MAX_ATTRS && sscanf(line, "attr %23s %ld", a->name, &a->value) == 2)
            op.n_attrs++;
        else if (op.n_in < TD_OP_MAX_TENSORS && !strncmp(line, "in ", 3))
            read_tensor(line, &op.in[op.n_in++]);
        else if (!strncmp(line, "out ", 4)) {
            read_tensor(line, &op.out);
            rec.layer = layer;
            rec.symbol = symbol;
            op_writer_put(w, &op, &rec);
            rec.number++;
            free_op(&op);
        } else
            op_writer_check(TD_EINVAL, line);
    }
    op_writer_check(td_writer_close(w, "complete", &err), "close");
    return 0;
}
