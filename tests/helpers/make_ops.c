/* make_ops.c - write a fixture of gptq_gemm ops with random weights, for tests of replay.
 * SPDX-License-Identifier: Apache-2.0
 *
 * make_ops DIR [steps=N] [wrong=OP] [inf=N] [digest=1] [narrow=1] [rows=N] [unknown=1] [claims=M] [gpu=1] [marlin=1]
 *   steps    number of steps, each of 4 layers; the first has 20 rows, the others 1 (default 3)
 *   rows     rows of the first step. On a GPU more than 50 rows (24 with 8 bits) are recorded as
 *            reconstruct_exllama and cublasHgemm.
 *   wrong    one element of the recorded output of this op is doubled
 *   inf      an element of A is Inf in each op whose number is divisible by this
 *   digest   outputs are stored as a hash only
 *   narrow   the last layer has 72 columns
 *   unknown  add an op of an unknown kind, and an op whose weights are missing
 *   claims   the op whose weights are missing says that it has so many rows
 *   gpu      as if recorded from vLLM on a GPU: provider cuda computes the outputs with the build
 *            that TD_MAKE_OPS_BUILD names (TD_MAKE_OPS_PROVIDER names another provider)
 *   marlin   like gpu, as if vLLM's Marlin had run: 141 rows in the first step, symmetric weights,
 *            kernel instances and launches as on an H100 */
#include "tests/helpers/fake_marlin.h"
#include "tests/helpers/op_writer.h"
#include "tests/unit/random_gptq.h"

static const struct { const char *name; struct random_gptq d; } layers[] = {
    {"model.layers.0.self_attn.q_proj", {1, 256, 256, 4, 64, false}},
    {"model.layers.0.mlp.gate_proj", {1, 640, 256, 4, 64, false}},
    {"model.layers.0.mlp.down_proj", {1, 256, 640, 4, 128, true}},
    {"model.layers.1.self_attn.q_proj", {1, 256, 256, 8, 32, false}},
};
#define VLLM "gemm_half_q_half_gptq_"
#define N_LAYERS ((int)(sizeof layers / sizeof *layers))

/* Add a launch over rows [first, first + rows). For layers so small vLLM chooses blocks of 128
 * threads, K 128 by N 64; it launches the multiples of 64 rows first, then the rest. */
static void add_launch(struct td_op_call *call, int64_t first, int64_t rows, const struct random_gptq *d)
{
    struct td_op_launch *l = &call->launches[call->n_launches];

    *l = (struct td_op_launch){.rows = {first, first + rows}, .grid = {132, 1, 1}, .block = {128, 1, 1}, .shared_bytes = 232448};
    snprintf(l->symbol, sizeof l->symbol, "_ZN6marlin6MarlinI" FAKE_MARLIN_F16 "%s" FAKE_MARLIN_F16 FAKE_MARLIN_F16 "Li128ELi%dELi4ELi8ELb%dELi4ELi%dELb0" FAKE_MARLIN_TAIL,
             d->bits == 8 ? FAKE_MARLIN_U8B128 : FAKE_MARLIN_U4B8, rows >= 64 ? 4 : 1, rows <= 8, (int)d->group_size / 16);
    if (!call->n_launches++) {
        strcpy(call->symbol, l->symbol);
        l->symbol[0] = '\0';
    }
}

static void make_marlin(struct td_op_call *call, const struct random_gptq *d)
{
    const int64_t full_blocks = d->m / 64 * 64;

    memset(call->in[2].data, d->bits == 4 ? 0x77 : 0x7f, call->in[2].size_bytes);
    strcpy(call->layout, "marlin");
    strcpy(call->act_rounding, "weight-f16");
    if (full_blocks)
        add_launch(call, 0, full_blocks, d);
    if (d->m > full_blocks)
        add_launch(call, full_blocks, d->m - full_blocks, d);
}

/* The symbol of the op's kernel: vLLM's exllama for a GPU, else ours. */
static const char *symbol_of(const struct td_op_call *call, bool gpu, int bits)
{
    if (!call->symbol[0] && gpu && td_op_attr(call, "m", 0) > (bits == 8 ? 24 : 50))
        return bits == 8 ? "reconstruct_exllama_8bit_kernel" : "reconstruct_exllama_4bit_kernel";
    return call->symbol[0] ? call->symbol : !gpu ? "td_gptq_gemm" : bits == 8 ? VLLM "8bit_kernel" : VLLM "4bit_kernel";
}

static void write_step(struct td_writer *w, int step, int argc, char **argv)
{
    long narrow = op_writer_option(argc, argv, "narrow", 0), wrong = op_writer_option(argc, argv, "wrong", -1), digest = op_writer_option(argc, argv, "digest", 0),
         inf = op_writer_option(argc, argv, "inf", 0);
    const bool marlin = op_writer_option(argc, argv, "marlin", 0);
    const char *build = marlin || op_writer_option(argc, argv, "gpu", 0) ? getenv("TD_MAKE_OPS_BUILD") : NULL, *named = getenv("TD_MAKE_OPS_PROVIDER");
    int i;

    for (i = 0; i < N_LAYERS; i++) {
        struct random_gptq d = layers[i].d;
        struct td_op_call call;
        int64_t number = (int64_t)step * N_LAYERS + i;

        d.m = step ? 1 : op_writer_option(argc, argv, "rows", marlin ? 141 : 20);
        d.act_order = d.act_order && !marlin; /* its rows are sorted, and A's columns with them */
        d.n = narrow && i == N_LAYERS - 1 ? 72 : d.n;
        random_gptq_make(&call, &d, (uint64_t)i, (uint64_t)number);
        if (inf && number % inf == 0)
            ((uint16_t *)call.in[0].data)[3] = 0x7c00;
        if (marlin)
            make_marlin(&call, &d);
        if (!marlin && !strncmp(symbol_of(&call, build, d.bits), "reconstruct", 11))
            strcpy(call.act_rounding, "weight-f16");
        op_writer_check(random_gptq_run_build(&call, !build ? "cpu" : named ? named : "cuda", build), build ? build : "cpu");
        if (number == wrong)
            ((uint16_t *)call.out.data)[5] ^= 0x0400;
        op_writer_put(w, &call, &(struct op_writer){number, step, NULL, layers[i].name, symbol_of(&call, build, d.bits), digest, false});
        random_gptq_free(&call);
    }
}

static void write_unknown(struct td_writer *w, int64_t number, long claims)
{
    struct td_op_call call;
    struct random_gptq d = layers[0].d;

    random_gptq_make(&call, &d, 99, 1);
    op_writer_check(random_gptq_run(&call, "cpu"), "cpu");
    op_writer_put(w, &call, &(struct op_writer){number, 0, "flash_attention", "model.layers.9.x", "td_gptq_gemm", false, false});
    for (int i = 0; claims && i < call.n_attrs; i++)
        if (!strcmp(call.attrs[i].name, "m"))
            call.attrs[i].value = claims;
    op_writer_put(w, &call, &(struct op_writer){number + 1, 0, NULL, "model.layers.9.y", "td_gptq_gemm", false, true});
    random_gptq_free(&call);
}

int main(int argc, char **argv)
{
    struct td_writer_options opt = {.tool = "record"};
    struct td_error err = {0};
    struct td_writer *w = NULL;
    long steps = op_writer_option(argc, argv, "steps", 3), s;

    if (argc < 2 || td_writer_create(argv[1], &opt, &w, &err)) {
        fprintf(stderr, "make_ops: %s\n", argc < 2 ? "which folder?" : err.msg);
        return 2;
    }
    td_writer_fact_str(w, "server", "model", "random");
    for (s = 0; s < steps; s++)
        write_step(w, (int)s, argc, argv);
    if (op_writer_option(argc, argv, "unknown", 0))
        write_unknown(w, steps * N_LAYERS, op_writer_option(argc, argv, "claims", 0));
    if (td_writer_close(w, "complete", &err)) {
        fprintf(stderr, "make_ops: %s\n", err.msg);
        return 4;
    }
    return 0;
}
