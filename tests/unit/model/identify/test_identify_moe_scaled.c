/* test_identify_moe_scaled.c - experts of 8 bits, as vLLM has them for cutlass_moe_mm, get their layer's name.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/fs.h"
#include "model/identify/identify.h"

#define MLP "model.layers.0.mlp.experts"
enum { EXPERTS = 3, FFN = 8, HIDDEN = 16, PARTS = 3 };
enum { GATE, UP, DOWN };

static const char *const parts[PARTS] = {"gate_proj", "up_proj", "down_proj"};
static char root[] = "/tmp/td-identify-moe-scaled-XXXXXX";
static struct td_layer_index *by_matrix, *by_row;
/* As the checkpoint has them; scales of matrices, and of rows. */
static unsigned char w[EXPERTS][PARTS][FFN * HIDDEN];
static float scale[EXPERTS][PARTS], row_scale[EXPERTS][PARTS][HIDDEN];

static int rows_of(int part)
{
    return part == DOWN ? HIDDEN : FFN;
}

static int cols_of(int part)
{
    return part == DOWN ? FFN : HIDDEN;
}

static void draw(void)
{
    unsigned seed = 7;
    int e, p, i;

    for (e = 0; e < EXPERTS; e++)
        for (p = 0; p < PARTS; p++) {
            for (i = 0; i < FFN * HIDDEN; i++) {
                seed = seed * 1664525u + 1013904223u;
                w[e][p][i] = (unsigned char)(seed >> 8 & 0x80) | (unsigned char)(0x20 + (seed >> 16) % 0x50); /* E4M3, no small ones */
            }
            scale[e][p] = (p == UP ? 0.5f : 1) * 0.01f * (float)(e + 1); /* gate's is twice up's */
            for (i = 0; i < HIDDEN; i++)
                row_scale[e][p][i] = 0.001f * (float)(1 + (e * 31 + p * 17 + i * 7) % 50);
        }
}

static void add(struct td_buf *header, struct td_buf *data, const char *name, const char *dtype, int d0, int d1, const void *bytes, size_t size)
{
    td_buf_addf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", header->len > 1 ? "," : "", name, dtype, d0, d1,
                data->len, data->len + size);
    td_buf_add(data, bytes, size);
}

static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"head_dim\":8,\"vocab_size\":64,\"max_position_embeddings\":64,\"tie_word_embeddings\":true,\"eos_token_id\":2,\"rms_norm_eps\":1e-06,"
    "\"rope_theta\":10000.0,\"quantization_config\":{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\"}}";

static int write_file(const char *dir, const char *name, const char *bytes, size_t size)
{
    char path[TD_PATH_MAX];

    return td_fs_join(path, sizeof path, dir, name, NULL) || td_fs_write_atomic(path, bytes, size, NULL);
}

static int write_checkpoint(const char *dir, bool rows, struct td_layer_index **out)
{
    struct td_buf header = TD_BUF_INIT(1 << 20), data = TD_BUF_INIT(1 << 20), all = TD_BUF_INIT(1 << 20);
    char name[128];
    uint64_t n;
    int e, p, failed;

    td_buf_adds(&header, "{");
    for (e = 0; e < EXPERTS; e++)
        for (p = 0; p < PARTS; p++) {
            snprintf(name, sizeof name, MLP ".%d.%s.weight", e, parts[p]);
            add(&header, &data, name, "F8_E4M3", rows_of(p), cols_of(p), w[e][p], sizeof w[e][p]);
            snprintf(name, sizeof name, MLP ".%d.%s.weight_scale", e, parts[p]);
            add(&header, &data, name, "F32", rows ? rows_of(p) : 1, 1, rows ? row_scale[e][p] : &scale[e][p], 4 * (size_t)(rows ? rows_of(p) : 1));
        }
    td_buf_adds(&header, "}");
    while (header.len % 8)
        td_buf_addc(&header, ' ');
    n = header.len;
    td_buf_add(&all, &n, sizeof n);
    td_buf_add(&all, header.data, header.len);
    td_buf_add(&all, data.data, data.len);
    failed = mkdir(dir, 0700) || write_file(dir, "model.safetensors", td_buf_str(&all), all.len) || write_file(dir, "config.json", config, strlen(config)) ||
             td_layer_index_open(dir, out, NULL);
    td_buf_release(&header), td_buf_release(&data), td_buf_release(&all);
    return failed;
}

static int setup(void **state)
{
    char path[TD_PATH_MAX];

    (void)state;
    draw();
    if (!mkdtemp(root) || td_fs_join(path, sizeof path, root, "matrix", NULL) || write_checkpoint(path, false, &by_matrix))
        return 1;
    return td_fs_join(path, sizeof path, root, "row", NULL) || write_checkpoint(path, true, &by_row);
}

static int teardown(void **state)
{
    (void)state;
    td_layer_index_close(by_matrix);
    td_layer_index_close(by_row);
    return td_fs_remove_tree(root, NULL);
}

/* ---- what a server has ----------------------------------------------------------------------------------------------- */

struct sent { unsigned char bytes[EXPERTS * 2 * FFN * HIDDEN]; float scales[EXPERTS * HIDDEN]; struct td_weight_tensor t[2]; struct td_weight_set s; };

/* Experts from `first` on; gate over up with gate's scale, or down. Up's numbers are halved then: one less in the exponent. */
static void send(struct sent *x, bool rows, bool down, int first, int count)
{
    const int n = down ? HIDDEN : 2 * FFN, k = down ? FFN : HIDDEN;
    int e, i;

    memset(x, 0, sizeof *x);
    for (e = 0; e < count; e++) {
        unsigned char *to = x->bytes + e * n * k;

        memcpy(to, w[first + e][down ? DOWN : GATE], FFN * HIDDEN);
        for (i = 0; !down && i < FFN * HIDDEN; i++)
            to[FFN * HIDDEN + i] = (unsigned char)(w[first + e][UP][i] - (rows ? 0 : 8));
        for (i = 0; i < n; i++)
            x->scales[rows ? e * n + i : e] =
                !rows ? scale[first + e][down ? DOWN : GATE] : row_scale[first + e][down ? DOWN : i < FFN ? GATE : UP][down || i < FFN ? i : i - FFN];
    }
    x->t[0] = (struct td_weight_tensor){.rec = {.role = "w", .dtype = "F8_E4M3", .ndim = 3, .shape = {count, n, k}, .strides = {n * k, k, 1}},
                                        .data = x->bytes, .size = (size_t)(count * n * k)};
    x->t[1] = (struct td_weight_tensor){.rec = {.role = "w_scales", .dtype = "F32", .ndim = rows ? 2 : 1, .shape = {count, n}, .strides = {rows ? n : 1, 1}},
                                        .data = x->scales, .size = (size_t)(count * (rows ? n : 1)) * 4};
    x->s = (struct td_weight_set){.kind = "moe_scaled_mm", .layout = "checkpoint", .sent = x->t, .n_sent = 2, .layers = rows ? by_row : by_matrix};
}

static void expect(struct sent *x, int matches, const char *layer)
{
    struct td_error err = {0};

    if (td_identify_weights(&x->s, &err))
        fail_msg("%s", err.msg);
    if (x->s.matches != matches || strcmp(x->s.layer, layer))
        fail_msg("%d matches, \"%s\", expected \"%s\"", x->s.matches, x->s.layer, layer);
    assert_int_equal(x->s.n, 2);
    assert_memory_equal(x->s.t[0].data, x->bytes, x->t[0].size); /* stored as it was sent */
    assert_string_equal(x->s.t[1].rec.role, "w_scales");
    td_weight_set_release(&x->s);
}

static void experts_are_found(void **state)
{
    struct sent x;
    int rows;

    (void)state;
    for (rows = 0; rows < 2; rows++) {
        send(&x, rows, false, 0, EXPERTS);
        expect(&x, 1, MLP ".gate_up_proj");
        send(&x, rows, true, 0, EXPERTS);
        expect(&x, 1, MLP ".down_proj");
        send(&x, rows, true, 1, 2);    /* of a rank of expert parallelism */
        expect(&x, 1, MLP ".down_proj");
    }
}

static void others_have_no_name(void **state)
{
    struct sent x;

    (void)state;
    send(&x, false, false, 0, EXPERTS);
    x.bytes[sizeof x.bytes - 1] ^= 4;  /* of the last expert */
    expect(&x, 0, "");
    send(&x, false, true, 0, EXPERTS);
    x.scales[2] *= 1.1f;
    expect(&x, 0, "");
    send(&x, true, true, 0, EXPERTS);
    memcpy(x.bytes + FFN * HIDDEN, w[2][DOWN], FFN * HIDDEN); /* not the second one */
    expect(&x, 0, "");
    send(&x, false, true, 0, EXPERTS);
    x.s.layers = NULL;
    expect(&x, 0, "");
    send(&x, false, true, 0, EXPERTS);
    x.t[1].rec.shape[0] = 2, x.t[1].size = 8; /* scales of two experts only */
    expect(&x, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_found),
        cmocka_unit_test(others_have_no_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
