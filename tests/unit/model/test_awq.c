/* test_awq.c - AWQ's packing, undone as AutoAWQ does it, and checkpoints that have it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/fs.h"
#include "model/awq.h"
#include "model/checkpoint.h"
#include "tests/unit/tiny_checkpoint.h"

#define UP "model.layers.0.mlp.up_proj"

static char root[] = "/tmp/td-awq-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(root);
}

static int teardown(void **state)
{
    (void)state;
    return td_fs_remove_tree(root, NULL);
}

static const char *folder(const char *name, const struct tiny_spoil *spoil)
{
    static char path[TD_PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(tiny_checkpoint_write(path, spoil), 0);
    return path;
}

/* AutoAWQ (WQLinear_GEMM.from_linear): qweight[:, col] |= intweight[:, col * 8 + order_map[i]] << (i * 4), order_map = [0, 2, 4, 6, 1, 3, 5, 7] */
static unsigned as_autoawq_packs(const struct td_st_tensor *t, int64_t row, int64_t n)
{
    static const int order_map[] = {0, 2, 4, 6, 1, 3, 5, 7};
    uint32_t word;
    int i = 0;

    memcpy(&word, (const char *)t->data + (row * t->shape[1] + n / 8) * 4, 4);
    while (order_map[i] != n % 8)
        i++;
    return word >> i * 4 & 15;
}

static void every_weight_and_zero_point(void **state)
{
    struct td_checkpoint *ck;
    const struct td_gptq_weight *w;
    const struct td_st_tensor *q, *z;
    struct td_gptq_weight unpacked;
    uint32_t *words;
    int64_t i, n;

    (void)state;
    assert_int_equal(td_checkpoint_open(folder("good", &(struct tiny_spoil){.awq = true}), &ck, NULL), 0);
    w = td_checkpoint_find(ck, UP);
    assert_non_null(w);
    assert_true(w->awq && !w->qweight && w->k == TINY_HIDDEN && w->n == TINY_FFN && w->groups == TINY_HIDDEN / 32 && w->zero_offset == 0);
    q = td_safetensors_find(ck->tensors, UP ".qweight"), z = td_safetensors_find(ck->tensors, UP ".qzeros");
    words = malloc(q->size_bytes);
    td_awq_unpack_weight(w->k, w->n, w->awq, words);
    unpacked = *w;
    unpacked.qweight = words;
    for (n = 0; n < w->n; n++) {
        for (i = 0; i < w->k; i++)
            assert_int_equal(td_gptq_q(&unpacked, i, n), as_autoawq_packs(q, i, n));
        for (i = 0; i < w->groups; i++)
            assert_int_equal(td_gptq_zero(&unpacked, i, n), as_autoawq_packs(z, i, n));
    }
    free(words);
    td_checkpoint_close(ck);
}

static void spoilt_ones_are_refused_by_name(void **state)
{
    static const struct { struct tiny_spoil spoil; const char *says; } cases[] = {
        {{.awq = true, .omit = UP ".qzeros"}, UP ".qzeros"},   {{.awq = true, .omit = UP ".scales"}, UP ".scales"},
        {{.awq = true, .misshape = UP ".qweight"}, UP ".qzeros"}, {{.awq = true, .misshape = UP ".scales"}, UP ".scales"},
        {{.awq = true, .bits = 8}, "8 bits"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_checkpoint *ck = (struct td_checkpoint *)1;
        struct td_error err = {0};
        char name[2] = {(char)('a' + i), 0};

        assert_int_not_equal(td_checkpoint_open(folder(name, &cases[i].spoil), &ck, &err), 0);
        assert_null(ck);
        assert_non_null(strstr(err.msg, cases[i].says));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_weight_and_zero_point), cmocka_unit_test(spoilt_ones_are_refused_by_name)};

    return cmocka_run_group_tests_name("awq", tests, setup, teardown);
}
