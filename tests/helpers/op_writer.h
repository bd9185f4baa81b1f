/* op_writer.h - write ops from memory into a fixture, for the programs here that make test fixtures
 * (make_ops, make_ggml_ops, make_long_ops, raw_ops).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HELPERS_OP_WRITER_H
#define TD_TESTS_HELPERS_OP_WRITER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/fixture.h"
#include "kernels/ops/op.h"

/* The number of option "name=N" on the command line, from the second argument on; else
 * `missing`. */
static inline long op_writer_option(int argc, char **argv, const char *name, long missing)
{
    size_t n = strlen(name);
    int i;

    for (i = 2; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
            return strtol(argv[i] + n + 1, NULL, 10);
    return missing;
}

static inline void op_writer_check(int rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "%s: %s\n", what, td_code_name(rc));
    exit(4);
}

static inline void op_writer_tensor(struct td_writer *w, const struct td_tensor *t, bool store, struct td_tensor_rec *r)
{
    memset(r, 0, sizeof *r);
    snprintf(r->role, sizeof r->role, "%s", t->role);
    snprintf(r->dtype, sizeof r->dtype, "%s", td_dtype_name(t->dtype));
    r->ndim = t->ndim;
    memcpy(r->shape, t->shape, sizeof r->shape);
    memcpy(r->strides, t->strides, sizeof r->strides);
    r->align = (int64_t)t->align;
    r->stored = store;
    if (store)
        op_writer_check(td_writer_blob(w, t->data, t->size_bytes, t->dtype == TD_DT_F16 ? 2 : 1, &r->blob), "blob");
    else
        r->blob = td_hash_bytes(t->data, t->size_bytes);
}

/* Make impl.launches as the tap writes it; NULL: the op has no launches. */
static inline cJSON *op_writer_launches(const struct td_op_call *call)
{
    cJSON *all = call->n_launches ? cJSON_CreateArray() : NULL, *o;
    int i, d;

    for (i = 0; i < call->n_launches; i++) {
        const struct td_op_launch *l = &call->launches[i];
        int rows[2] = {(int)l->rows[0], (int)l->rows[1]}, grid[3], block[3];

        for (d = 0; d < 3; d++) {
            grid[d] = (int)l->grid[d];
            block[d] = (int)l->block[d];
        }
        cJSON_AddItemToArray(all, o = cJSON_CreateObject());
        cJSON_AddItemToObject(o, "rows", cJSON_CreateIntArray(rows, 2));
        cJSON_AddItemToObject(o, "grid", cJSON_CreateIntArray(grid, 3));
        cJSON_AddItemToObject(o, "block", cJSON_CreateIntArray(block, 3));
        cJSON_AddNumberToObject(o, "shared_bytes", l->shared_bytes);
        if (l->symbol[0])
            cJSON_AddStringToObject(o, "symbol", l->symbol);
    }
    return all;
}

/* What the record holds beside the tensors.
 *   kind            NULL: the kind of the op itself
 *   digest          store the output as a hash only
 *   without_weights store the weights as a hash only */
struct op_writer {
    int64_t number, step;
    const char *kind, *layer, *symbol;
    bool digest, without_weights;
};

static inline void op_writer_put(struct td_writer *w, const struct td_op_call *call, const struct op_writer *o)
{
    struct td_tensor_rec in[TD_OP_MAX_TENSORS];
    struct td_op op = {.op = o->number, .step = o->step, .pid = 1, .t_ns = 1000 * o->number, .attrs = cJSON_CreateObject(), .in = in,
                       .n_in = call->n_in, .has_out = true, .kind = strdup(o->kind ? o->kind : call->kind), .layer = strdup(o->layer),
                       .act_rounding = strdup(call->act_rounding[0] ? call->act_rounding : "none"),
                       .impl = {.symbol = strdup(o->symbol), .layout = call->layout[0] ? strdup(call->layout) : NULL, .launches = op_writer_launches(call),
                                .duration_ns = -1}};
    int t;

    for (t = 0; t < call->n_attrs; t++)
        cJSON_AddNumberToObject(op.attrs, call->attrs[t].name, (double)call->attrs[t].value);
    for (t = 0; t < call->n_in; t++)
        op_writer_tensor(w, &call->in[t], t != 1 || !o->without_weights, &in[t]);
    op_writer_tensor(w, &call->out, !o->digest, &op.out);
    op_writer_check(td_writer_op(w, &op), "op");
    cJSON_Delete(op.attrs);
    free(op.kind);
    free(op.layer);
    free(op.act_rounding);
    free(op.impl.symbol);
    free(op.impl.layout);
    cJSON_Delete(op.impl.launches);
}

#endif
