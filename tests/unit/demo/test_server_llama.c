/* test_server_llama.c - loading a checkpoint, what the batch may not change, and NaN staying in its row.
 * SPDX-License-Identifier: Apache-2.0
 *
 * That the forward pass computes the right thing is compared with torch on the trained checkpoints (tests/e2e). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/server/llama.h"
#include "tests/unit/tiny_checkpoint.h"

static int open_tiny(struct td_llama **m, const struct tiny_spoil *spoil, struct td_error *err)
{
    char dir[] = "/tmp/td-llama-XXXXXX";
    int rc;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(tiny_checkpoint_write(dir, spoil), 0);
    rc = td_llama_open(m, dir, 32, 3, err);
    td_fs_remove_tree(dir, NULL);
    return rc;
}

static struct td_llama *open_good(void)
{
    const struct tiny_spoil none = {0};
    struct td_error err = {0};
    struct td_llama *m = NULL;

    if (open_tiny(&m, &none, &err))
        fail_msg("%s", err.msg);
    return m;
}

static void test_what_is_wrong_is_named(void **state)
{
    static const struct { struct tiny_spoil spoil; const char *says; } cases[] = {
        {{.omit = "model.norm.weight"}, "model.norm.weight"},
        {{.omit = "model.layers.0.mlp.up_proj.qweight"}, "model.layers.0.mlp.up_proj"},
        {{.omit = "model.layers.0.mlp.up_proj.scales"}, "model.layers.0.mlp.up_proj.scales"},
        {{.misshape = "model.layers.0.input_layernorm.weight"}, "model.layers.0.input_layernorm.weight"},
        {{.misshape = "model.layers.0.self_attn.q_proj.qweight"}, "model.layers.0.self_attn.q_proj"},
        {{.misshape = "model.embed_tokens.weight"}, "model.embed_tokens.weight"},
        {{.ffn = 64}, "model.layers.0.mlp.gate_proj"},  /* not what config.json says */
        {{.ffn = 100}, "model.layers.0.mlp"},           /* n % 8, k % 8 */
        {{.truncate_bytes = 100}, "100"},
        {{.model_type = "mamba"}, "mamba"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_llama *m = NULL;
        struct td_error err = {0};
        int rc = open_tiny(&m, &cases[i].spoil, &err);
        assert_true(rc < 0);
        assert_null(m);
        if (!strstr(err.msg, cases[i].says))
            fail_msg("\"%s\" does not name \"%s\"", err.msg, cases[i].says);
    }
}

/* Logits of the last of n tokens in a slot, in one piece or token by token. */
static void run_alone(struct td_llama *m, int slot, const int32_t *tokens, int n, int piece, float *logits)
{
    struct td_llama_row row[32];

    for (int at = 0; at < n; at += piece) {
        int here = n - at < piece ? n - at : piece;
        for (int i = 0; i < here; i++)
            row[i] = (struct td_llama_row){tokens[at + i], slot, at + i, at + i == n - 1};
        assert_int_equal(td_llama_step(m, row, here, logits, NULL), 0);
    }
}

static void test_a_row_depends_on_nothing_else_in_the_batch(void **state)
{
    static const int32_t a[] = {10, 20, 30, 40, 50}, b[] = {7, 7, 8, 9, 256, 1, 2, 3};
    struct td_llama *m = open_good();
    static float alone_a[TINY_VOCAB], alone_b[TINY_VOCAB], both[2 * TINY_VOCAB], pieces[TINY_VOCAB];
    struct td_llama_row row[13];

    (void)state;
    run_alone(m, 0, a, 5, 5, alone_a);
    run_alone(m, 1, b, 8, 8, alone_b);
    run_alone(m, 2, b, 8, 1, pieces);
    assert_memory_equal(pieces, alone_b, sizeof pieces);
    run_alone(m, 2, b, 8, 3, pieces);
    assert_memory_equal(pieces, alone_b, sizeof pieces);
    for (int i = 0; i < 5; i++) /* the other order, other slots: both prompts in one pass */
        row[i] = (struct td_llama_row){a[i], 2, i, i == 4};
    for (int i = 0; i < 8; i++)
        row[5 + i] = (struct td_llama_row){b[i], 0, i, i == 7};
    assert_int_equal(td_llama_step(m, row, 13, both, NULL), 0);
    assert_memory_equal(both, alone_a, sizeof alone_a);
    assert_memory_equal(both + TINY_VOCAB, alone_b, sizeof alone_b);
    assert_memory_not_equal(alone_a, alone_b, sizeof alone_a);
    for (int i = 0; i < TINY_VOCAB; i++)
        assert_true(isfinite(alone_a[i]));
    assert_int_equal(m->n_gemms, 7 * (1 + 1 + 8 + 3 + 1));
    td_llama_close(m);
}

static void test_nan_stays_in_its_sequence(void **state)
{
    static const int32_t a[] = {10, 20, 30};
    struct td_llama *m = open_good();
    static float clean[TINY_VOCAB], both[2 * TINY_VOCAB];
    struct td_llama_row row[4] = {{11, 0, 0, true}, {10, 1, 0, false}, {20, 1, 1, false}, {30, 1, 2, true}};

    (void)state;
    run_alone(m, 1, a, 3, 3, clean);
    for (int i = 0; i < TINY_HIDDEN; i++)
        m->embed[11 * TINY_HIDDEN + i] = NAN;
    assert_int_equal(td_llama_step(m, row, 4, both, NULL), 0);
    assert_true(isnan(both[0]) && isnan(both[TINY_VOCAB - 1]));
    for (int i = 0; i < TINY_VOCAB; i++) /* the head is tied: only the spoiled token's own logit is NaN */
        assert_true(i == 11 ? isnan(both[TINY_VOCAB + i]) : both[TINY_VOCAB + i] == clean[i]);
    td_llama_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_wrong_is_named),
                                       cmocka_unit_test(test_a_row_depends_on_nothing_else_in_the_batch),
                                       cmocka_unit_test(test_nan_stays_in_its_sequence)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
