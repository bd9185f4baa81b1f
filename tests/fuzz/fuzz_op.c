/* fuzz_op.c - fuzz the operators with any recorded op that passes the check of its kind: the
 * reference and the kernels access the memory of its tensors and nothing beyond.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Input: a line of ops.jsonl.zst. The tensors' memory ends at a page without access. Few mutations
 * of a line are still lines, so each valid line also gets some changes of its numbers. */
#include "common/hash.h"
#include "common/json.h"
#include "format/records.h"
#include "kernels/ops/op_check.h"
#include "kernels/ops/op_kinds.h"
#include "kernels/providers/providers.h"
#include "tests/fuzz/fuzz_main.h"
#include "tests/unit/kernels/gptq_gemm/gptq_case.h"

#define MAX_BYTES 65536
#define MAX_WORK 2000000 /* products; beyond, only the check runs */

struct memory { struct guarded g[TD_OP_MAX_TENSORS + 1]; int n; };

static void make_tensor(const struct td_tensor_rec *r, struct td_tensor *t, struct memory *m)
{
    int64_t need;

    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", r->role);
    t->dtype = td_dtype_parse(r->dtype);
    t->ndim = r->ndim;
    memcpy(t->shape, r->shape, sizeof t->shape);
    memcpy(t->strides, r->strides, sizeof t->strides);
    need = td_op_span_bytes(t);
    t->size_bytes = need < 0 || need > MAX_BYTES ? MAX_BYTES : (size_t)need;
    m->g[m->n] = guarded_new(t->size_bytes, true);
    t->data = m->g[m->n++].data;
    for (size_t i = 0; i < t->size_bytes; i++)
        ((unsigned char *)t->data)[i] = t->dtype == TD_DT_I32 ? 0 : (unsigned char)(i * 7 & 0x3f); /* a fit g_idx, finite floats */
}

static void take_op(const struct td_op *rec, struct td_op_call *op, struct memory *m)
{
    const cJSON *a;

    memset(op, 0, sizeof *op);
    snprintf(op->kind, sizeof op->kind, "%s", rec->kind);
    snprintf(op->act_rounding, sizeof op->act_rounding, "%.15s", rec->act_rounding ? rec->act_rounding : "");
    cJSON_ArrayForEach(a, rec->attrs)
        if (a->string && op->n_attrs < TD_OP_MAX_ATTRS) {
            snprintf(op->attrs[op->n_attrs].name, sizeof op->attrs[0].name, "%s", a->string);
            op->attrs[op->n_attrs++].value = td_json_i64(a, 0);
        }
    for (int t = 0; t < rec->n_in && t < TD_OP_MAX_TENSORS; t++)
        make_tensor(&rec->in[t], &op->in[op->n_in++], m);
    if (rec->has_out)
        make_tensor(&rec->out, &op->out, m);
}

static double work_of(const struct td_op_call *op)
{
    double rows = 1;

    for (int d = 0; d < op->out.ndim; d++)
        rows *= (double)op->out.shape[d];
    return rows * (double)td_op_attr(op, "k", 1);
}

static void run(const struct td_op_call *op)
{
    const struct td_provider *cpu = td_provider_find("cpu");
    struct td_error err = {0};
    struct td_op_ref ref;
    void *state, *prepared;

    if (td_op_kind_find(op->kind)->reference(op, &ref, &err) == 0)
        td_op_ref_release(&ref);
    else if (err.code != TD_ENOMEM && err.code != TD_ELIMIT)
        abort(); /* it passed its check */
    if (cpu->open(NULL, &state, &err))
        return;
    if (!cpu->supports(state, op) && !cpu->prepare(state, op, &prepared, &err)) {
        cpu->run(state, prepared, &err);
        cpu->release(state, prepared);
    }
    cpu->close(state);
}

static uint64_t next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static int64_t other(int64_t v, uint64_t *s)
{
    const int64_t values[] = {0, 1, 2, 3, v > 0 ? v - 1 : 0, v < INT32_MAX ? v + 1 : 0, v < INT32_MAX ? (int64_t)((uint64_t)v * 2) : 0, v / 2, 32, 256, INT32_MAX, INT64_C(1) << 40, INT64_MAX, -1};

    return values[next(s) % (sizeof values / sizeof *values)];
}

/* Another size, stride, dtype or attribute. */
static void tweak(struct td_op_call *op, uint64_t *s)
{
    struct td_tensor *t = next(s) % 4 && op->n_in ? &op->in[next(s) % (uint64_t)op->n_in] : &op->out;
    const int d = t->ndim > 0 ? (int)(next(s) % (uint64_t)t->ndim) : 0;

    switch (next(s) % 6) {
    case 0: t->shape[d] = other(t->shape[d], s); break;
    case 1: t->strides[d] = other(t->strides[d], s); break;
    case 2: t->dtype = (enum td_dtype)(next(s) % TD_DT_COUNT); break;
    case 3: t->ndim = (int)(next(s) % 5); break;
    default:
        if (op->n_attrs) {
            struct td_attr *a = &op->attrs[next(s) % (uint64_t)op->n_attrs];

            a->value = other(a->value, s);
        }
    }
}

static void check_and_run(const struct td_op_call *op)
{
    const struct td_op_kind *kind = td_op_kind_find(op->kind);
    struct td_error err = {0};

    if (kind && kind->reference && !kind->check(op, &err) && work_of(op) < MAX_WORK)
        run(op);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct td_error err = {0};
    cJSON *line = td_json_parse((const char *)data, n, &err);
    uint64_t seed = td_hash64(data, n);
    struct memory m = {.n = 0};
    struct td_op_call op, changed;
    struct td_op rec;

    if (line && !td_op_read(line, &rec, &err)) {
        take_op(&rec, &op, &m);
        check_and_run(&op);
        for (int i = 0; i < 30; i++) {
            changed = op;
            for (int k = 0; k < 1 + i % 4; k++)
                tweak(&changed, &seed);
            check_and_run(&changed);
        }
        while (m.n--)
            munmap(m.g[m.n].map, m.g[m.n].map_size);
        td_op_release(&rec);
    }
    cJSON_Delete(line);
    return 0;
}

TD_FUZZ_MAIN("tests/fuzz/corpus/op", 20000)
