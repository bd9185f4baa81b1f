/* random_gptq.h - ops of kind gptq_gemm with random weights, in memory, for tests of the replayer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_RANDOM_GPTQ_H
#define TD_TESTS_UNIT_RANDOM_GPTQ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops/op.h"
#include "kernels/providers/providers.h"

struct random_gptq { int64_t m, n, k; int bits; int64_t group_size; bool act_order; };

static inline uint32_t random_u32(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 32);
}

static inline struct td_tensor *random_tensor(struct td_tensor *t, const char *role, enum td_dtype dt, int64_t d0, int64_t d1)
{
    memset(t, 0, sizeof *t);
    snprintf(t->role, sizeof t->role, "%s", role);
    t->dtype = dt;
    t->ndim = d1 < 0 ? 1 : 2;
    t->shape[0] = d0;
    t->shape[1] = d1 < 0 ? 0 : d1;
    t->strides[0] = d1 < 0 ? 1 : d1;
    t->strides[1] = d1 < 0 ? 0 : 1;
    t->size_bytes = (size_t)(d0 * (d1 < 0 ? 1 : d1)) * td_dtype_size(dt);
    t->align = 16;
    t->data = malloc(t->size_bytes + 64);
    return t;
}

static inline void random_words(struct td_tensor *t, uint64_t *s)
{
    size_t i;

    for (i = 0; i < t->size_bytes / 4; i++)
        ((uint32_t *)t->data)[i] = random_u32(s);
}

static inline void random_halves(struct td_tensor *t, uint64_t *s, float scale, float offset)
{
    size_t i;

    for (i = 0; i < t->size_bytes / 2; i++)
        ((uint16_t *)t->data)[i] = td_f32_to_f16(offset + scale * ((float)(random_u32(s) >> 8) / 8388608.0f - 1.0f));
}

static inline void random_attr(struct td_op_call *op, const char *name, int64_t v)
{
    snprintf(op->attrs[op->n_attrs].name, sizeof op->attrs[0].name, "%s", name);
    op->attrs[op->n_attrs++].value = v;
}

/* weights: equal seeds, equal weights. Free with random_gptq_free(). op->out.data is NULL. */
static inline void random_gptq_make(struct td_op_call *op, const struct random_gptq *d, uint64_t weights, uint64_t rows)
{
    int64_t per = 32 / d->bits, groups = d->k / d->group_size, i;
    uint64_t sw = weights * 7919 + 17, sa = rows * 104729 + 3;

    memset(op, 0, sizeof *op);
    snprintf(op->kind, sizeof op->kind, "gptq_gemm");
    random_attr(op, "m", d->m);
    random_attr(op, "n", d->n);
    random_attr(op, "k", d->k);
    random_attr(op, "bits", d->bits);
    random_attr(op, "group_size", d->group_size);
    random_attr(op, "zero_offset", 1);
    random_attr(op, "act_order", d->act_order);
    random_halves(random_tensor(&op->in[0], "a", TD_DT_F16, d->m, d->k), &sa, 1.0f, 0.0f);
    random_words(random_tensor(&op->in[1], "qweight", TD_DT_I32, d->k / per, d->n), &sw);
    random_words(random_tensor(&op->in[2], "qzeros", TD_DT_I32, groups, d->n / per), &sw);
    random_halves(random_tensor(&op->in[3], "scales", TD_DT_F16, groups, d->n), &sw, 0.004f, 0.006f);
    op->n_in = 4;
    if (d->act_order) {
        random_tensor(&op->in[4], "g_idx", TD_DT_I32, d->k, -1);
        for (i = 0; i < d->k; i++) /* every group gets its share, in an order that is not sorted */
            ((int32_t *)op->in[4].data)[i] = (int32_t)((i * 7 + (int64_t)weights) % groups);
        op->n_in = 5;
    }
    random_tensor(&op->out, "c", TD_DT_F16, d->m, d->n);
    free(op->out.data);
    op->out.data = NULL;
}

static inline void random_gptq_free(struct td_op_call *op)
{
    int t;

    for (t = 0; t < op->n_in; t++)
        free(op->in[t].data);
    free(op->out.data);
    memset(op, 0, sizeof *op);
}

/* The op's output by a provider of ours, in new memory at op->out.data (what was there is freed). 0 or TD_E*. */
static inline int random_gptq_run_build(struct td_op_call *op, const char *provider, const char *build)
{
    const struct td_provider *p = td_provider_find(provider);
    void *state = NULL, *prepared = NULL;
    int rc;

    free(op->out.data);
    op->out.data = calloc(1, op->out.size_bytes + 64);
    rc = p->open(build, &state, NULL);
    if (!rc)
        rc = p->prepare(state, op, &prepared, NULL);
    if (!rc)
        rc = p->run(state, prepared, NULL);
    if (!rc)
        rc = p->fetch(state, prepared, NULL);
    if (prepared)
        p->release(state, prepared);
    if (state)
        p->close(state);
    return rc;
}

static inline int random_gptq_run(struct td_op_call *op, const char *provider)
{
    return random_gptq_run_build(op, provider, NULL);
}

#endif
