/* make_ops.c - write a fixture that holds gptq_gemm ops with random weights, for tests of replay.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_ops DIR [steps=N] [wrong=OP] [digest=1] [unknown=1]
 *   steps    forward passes of 4 layers; the first has 20 rows, the others 1 (default 3)
 *   wrong    the recorded output of this op has one element doubled
 *   digest   outputs are known by hash only
 *   unknown  one more op, of a kind that nobody knows, and one whose weights are not there */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/fixture.h"
#include "tests/unit/random_gptq.h"

static const struct { const char *name; struct random_gptq d; } layers[] = {
    {"model.layers.0.self_attn.q_proj", {1, 256, 256, 4, 64, false}},
    {"model.layers.0.mlp.gate_proj", {1, 640, 256, 4, 64, false}},
    {"model.layers.0.mlp.down_proj", {1, 256, 640, 4, 128, true}},
    {"model.layers.1.self_attn.q_proj", {1, 256, 256, 8, 32, false}},
};
#define N_LAYERS ((int)(sizeof layers / sizeof *layers))

static long option(int argc, char **argv, const char *name, long missing)
{
    size_t n = strlen(name);
    int i;

    for (i = 2; i < argc; i++)
        if (!strncmp(argv[i], name, n) && argv[i][n] == '=')
            return strtol(argv[i] + n + 1, NULL, 10);
    return missing;
}

static void die_if(int rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "make_ops: %s: %s\n", what, td_code_name(rc));
    exit(4);
}

static void tensor_rec(struct td_writer *w, const struct td_tensor *t, bool store, struct td_tensor_rec *r)
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
        die_if(td_writer_blob(w, t->data, t->size_bytes, t->dtype == TD_DT_F16 ? 2 : 1, &r->blob), "blob");
    else
        r->blob = td_hash_bytes(t->data, t->size_bytes);
}

static cJSON *attrs_of(const struct td_op_call *op)
{
    cJSON *o = cJSON_CreateObject();
    int i;

    for (i = 0; i < op->n_attrs; i++)
        cJSON_AddNumberToObject(o, op->attrs[i].name, (double)op->attrs[i].value);
    return o;
}

static void write_op(struct td_writer *w, struct td_op_call *call, int64_t number, int64_t step, const char *layer, bool digest,
                     const char *kind, bool weights)
{
    struct td_tensor_rec in[TD_OP_MAX_TENSORS];
    struct td_op op = {.op = number, .step = step, .pid = 1, .t_ns = 1000 * number, .attrs = attrs_of(call), .in = in,
                       .n_in = call->n_in, .has_out = true, .kind = strdup(kind), .layer = strdup(layer),
                       .act_rounding = strdup("none"), .impl = {.symbol = strdup("td_gptq_gemm"), .duration_ns = -1}};
    int t;

    for (t = 0; t < call->n_in; t++)
        tensor_rec(w, &call->in[t], weights || t != 1, &in[t]);
    tensor_rec(w, &call->out, !digest, &op.out);
    die_if(td_writer_op(w, &op), "op");
    cJSON_Delete(op.attrs);
    free(op.kind);
    free(op.layer);
    free(op.act_rounding);
    free(op.impl.symbol);
}

static void write_step(struct td_writer *w, int step, int argc, char **argv)
{
    long wrong = option(argc, argv, "wrong", -1), digest = option(argc, argv, "digest", 0);
    int i;

    for (i = 0; i < N_LAYERS; i++) {
        struct random_gptq d = layers[i].d;
        struct td_op_call call;
        int64_t number = (int64_t)step * N_LAYERS + i;

        d.m = step == 0 ? 20 : 1;
        random_gptq_make(&call, &d, (uint64_t)i, (uint64_t)number);
        die_if(random_gptq_run(&call, "cpu"), "cpu");
        if (number == wrong)
            ((uint16_t *)call.out.data)[5] ^= 0x0400;
        write_op(w, &call, number, step, layers[i].name, digest, "gptq_gemm", true);
        random_gptq_free(&call);
    }
}

static void write_unknown(struct td_writer *w, int64_t number)
{
    struct td_op_call call;
    struct random_gptq d = layers[0].d;

    random_gptq_make(&call, &d, 99, 1);
    die_if(random_gptq_run(&call, "cpu"), "cpu");
    write_op(w, &call, number, 0, "model.layers.9.x", false, "flash_attention", true);
    write_op(w, &call, number + 1, 0, "model.layers.9.y", false, "gptq_gemm", false);
    random_gptq_free(&call);
}

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "record"};
    struct td_error err = {0};
    struct td_writer *w = NULL;
    long steps = option(argc, argv, "steps", 3), s;

    if (argc < 2 || td_writer_create(argv[1], &opt, &w, &err)) {
        fprintf(stderr, "make_ops: %s\n", argc < 2 ? "which folder?" : err.msg);
        return 2;
    }
    td_writer_fact_str(w, "server", "model", "random");
    for (s = 0; s < steps; s++)
        write_step(w, (int)s, argc, argv);
    if (option(argc, argv, "unknown", 0))
        write_unknown(w, steps * N_LAYERS);
    if (td_writer_close(w, "complete", &err)) {
        fprintf(stderr, "make_ops: %s\n", err.msg);
        return 4;
    }
    return 0;
}
