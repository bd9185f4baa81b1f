/* make_recording.c - write a fixture of ops like those of a recorded vLLM with a small 4-bit Llama, for timings of the judge.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: make_recording DIR PROVIDER [BUILD] [steps=250] [layers=4] [hidden=2048] [ffn=11008]
 * Hidden size 2048, K and V 1024 columns, feed-forward 11008: qkv 2048 x 3072, o 2048 x 2048, gate and up 2048 x 22016,
 * down 11008 x 2048, groups of 128. Of twelve steps one has a prompt's rows, 60 to 260; the others 1 to 8. The provider
 * computes the outputs with BUILD ("cuda lib/td_kernels.fatbin", or "cpu"). */
#include "tests/helpers/op_writer.h"
#include "tests/unit/random_gptq.h"

#define MOST_LAYERS 32

struct shape { const char *name; int64_t n, k; };

static void run(const struct td_provider *p, void *state, struct td_op_call *op)
{
    void *prepared = NULL;
    struct td_error err = {0};

    if (p->prepare(state, op, &prepared, &err) || p->run(state, prepared, &err) || p->fetch(state, prepared, &err)) {
        fprintf(stderr, "make_recording: %s\n", err.msg);
        exit(4);
    }
    p->release(state, prepared);
}

/* Give the op m rows of A, and room for C. */
static void set_rows(struct td_op_call *op, int64_t m, uint64_t *seed)
{
    struct td_tensor *a = &op->in[0], *c = &op->out;

    for (int i = 0; i < op->n_attrs; i++)
        if (!strcmp(op->attrs[i].name, "m"))
            op->attrs[i].value = m;
    a->shape[0] = c->shape[0] = m;
    a->size_bytes = (size_t)(m * a->shape[1]) * 2;
    c->size_bytes = (size_t)(m * c->shape[1]) * 2;
    free(a->data);
    free(c->data);
    a->data = malloc(a->size_bytes + 64);
    c->data = calloc(1, c->size_bytes + 64);
    if (!a->data || !c->data)
        exit(4);
    random_halves(a, seed, 1, 0);
}

int main(int argc, char **argv)
{
    const long steps = op_writer_option(argc, argv, "steps", 250), layers = op_writer_option(argc, argv, "layers", 4);
    const int64_t hidden = op_writer_option(argc, argv, "hidden", 2048), ffn = op_writer_option(argc, argv, "ffn", 11008);
    const struct shape shapes[4] = {{"self_attn.qkv_proj", hidden + hidden / 2, hidden}, {"self_attn.o_proj", hidden, hidden},
                                    {"mlp.gate_up_proj", 2 * ffn, hidden}, {"mlp.down_proj", hidden, ffn}};
    const struct td_provider *p = argc > 2 ? td_provider_find(argv[2]) : NULL;
    const char *build = argc > 3 && !strchr(argv[3], '=') ? argv[3] : NULL;
    static struct td_op_call ops[MOST_LAYERS * 4];
    struct td_writer_options opt = {.tool = "record"};
    struct td_error err = {0};
    struct td_writer *w = NULL;
    uint64_t seed = 1;
    void *state = NULL;

    if (!p || layers < 1 || layers > MOST_LAYERS || p->open(build, &state, &err) || td_writer_create(argv[1], &opt, &w, &err)) {
        fprintf(stderr, "make_recording: %s\n", err.code ? err.msg : "usage: make_recording DIR PROVIDER [BUILD] [steps=N] [layers=N]");
        return 2;
    }
    td_writer_fact_str(w, "server", "model", "random");
    for (int i = 0; i < layers * 4; i++)
        random_gptq_make(&ops[i], &(struct random_gptq){1, shapes[i % 4].n, shapes[i % 4].k, 4, 128, false}, (uint64_t)i, 1);
    for (long step = 0; step < steps; step++) {
        const int64_t m = step % 12 ? 1 + (int64_t)(random_u32(&seed) % 8) : 60 + (int64_t)(random_u32(&seed) % 200);

        for (int i = 0; i < layers * 4; i++) {
            char name[80];

            snprintf(name, sizeof name, "model.layers.%d.%s", i / 4, shapes[i % 4].name);
            set_rows(&ops[i], m, &seed);
            run(p, state, &ops[i]);
            op_writer_put(w, &ops[i], &(struct op_writer){step * layers * 4 + i, (int)step, NULL, name, "td_gptq_gemm", false, false});
        }
    }
    for (int i = 0; i < layers * 4; i++)
        random_gptq_free(&ops[i]);
    p->close(state);
    if (td_writer_close(w, "complete", &err)) {
        fprintf(stderr, "make_recording: %s\n", err.msg);
        return 4;
    }
    return 0;
}
