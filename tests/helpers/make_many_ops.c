/* make_many_ops.c - write a fixture of very many small ops, for tests of what they take.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_many_ops DIR N: N gptq_gemm ops of 32 layers, of 1 and of 20 rows in turn. All ops of a layer with as
 * many rows have the same inputs, so that the records are what is large. */
#include "tests/helpers/op_writer.h"
#include "tests/unit/random_gptq.h"

#define N_LAYERS 32

static struct td_op_call calls[N_LAYERS][2];

static void make_calls(void)
{
    int i, many;

    for (i = 0; i < N_LAYERS; i++)
        for (many = 0; many < 2; many++) {
            struct random_gptq d = {many ? 20 : 1, 32, 64, 4, 32, false};

            random_gptq_make(&calls[i][many], &d, (uint64_t)i, (uint64_t)(2 * i + many));
            op_writer_check(random_gptq_run(&calls[i][many], "cpu"), "cpu");
        }
}

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "record"};
    const long n = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    struct td_error err = {0};
    struct td_writer *w = NULL;
    char layer[64];
    long i;

    if (n < 1 || td_writer_create(argv[1], &opt, &w, &err)) {
        fprintf(stderr, "make_many_ops: %s\n", n < 1 ? "which folder, and how many ops?" : err.msg);
        return 2;
    }
    td_writer_fact_str(w, "server", "model", "random");
    make_calls();
    for (i = 0; i < n; i++) {
        snprintf(layer, sizeof layer, "model.layers.%ld.mlp.gate_proj", i % N_LAYERS);
        op_writer_put(w, &calls[i % N_LAYERS][i / N_LAYERS % 2], &(struct op_writer){i, i / N_LAYERS, NULL, layer, "td_gptq_gemm", false, false});
    }
    if (td_writer_close(w, "complete", &err)) {
        fprintf(stderr, "make_many_ops: %s\n", err.msg);
        return 4;
    }
    return 0;
}
