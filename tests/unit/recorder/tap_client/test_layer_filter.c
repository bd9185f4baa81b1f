/* test_layer_filter.c - which names of layers fit --layers.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/tap_client/layer_filter.h"

static bool wants(const char *list, const char *name)
{
    struct td_layer_filter *f;
    struct td_error err = {0};
    bool w;

    assert_int_equal(td_layer_filter_new(list, &f, &err), 0);
    w = td_layer_filter_wants(f, name);
    td_layer_filter_free(f);
    return w;
}

static void numbers_and_ranges(void **state)
{
    (void)state;
    assert_true(wants("3", "model.layers.3.mlp.down_proj"));
    assert_false(wants("3", "model.layers.13.mlp.down_proj"));
    assert_false(wants("3", "model.layers.13.experts.3.down_proj")); /* the layer's number is the first */
    assert_true(wants("1,0-3", "blk.2.ffn_down.weight"));
    assert_false(wants("0-3", "blk.4.ffn_down.weight"));
    assert_true(wants("0-3", "ffn_out-3"));
    assert_false(wants("0-3", "ffn_out-31"));
    assert_false(wants("0-3", "lm_head"));
    assert_false(wants("0-3", NULL));
}

static void parts_of_names(void **state)
{
    (void)state;
    assert_true(wants("mlp.down_proj", "model.layers.3.mlp.down_proj"));
    assert_true(wants("down_proj", "model.layers.3.mlp.down_proj"));
    assert_false(wants("down", "model.layers.3.mlp.down_proj"));
    assert_false(wants("mlp.proj", "model.layers.3.mlp.down_proj"));
    assert_true(wants("*_proj", "model.layers.3.mlp.down_proj"));
    assert_true(wants("model.*.down_proj", "model.layers.3.mlp.down_proj"));  /* the whole name: * may stand for dots */
    assert_true(wants("blk.0.attn_?.weight", "blk.0.attn_q.weight"));
    assert_false(wants("blk.0.attn_?.weight", "blk.10.attn_q.weight"));
    assert_true(wants("lm_head", "lm_head"));
}

static void both(void **state)
{
    (void)state;
    assert_true(wants("0-3.mlp.down_proj", "model.layers.3.mlp.down_proj"));
    assert_false(wants("0-3.mlp.down_proj", "model.layers.4.mlp.down_proj"));
    assert_false(wants("0-3.mlp.down_proj", "model.layers.3.mlp.up_proj"));
    assert_true(wants("8,0-3.*_proj", "model.layers.8.norm"));
}

static void what_fitted_nothing_is_known(void **state)
{
    struct td_layer_filter *f;
    struct td_error err = {0};
    char unused[100];

    (void)state;
    assert_int_equal(td_layer_filter_new("7-9,down_proj,mlp.dwn", &f, &err), 0);
    assert_true(td_layer_filter_wants(f, "model.layers.3.mlp.down_proj"));
    assert_true(td_layer_filter_unused(f, unused, sizeof unused));
    assert_string_equal(unused, "7-9,mlp.dwn");
    td_layer_filter_free(f);
    assert_int_equal(td_layer_filter_new("down_proj", &f, &err), 0);
    td_layer_filter_wants(f, "model.layers.3.mlp.down_proj");
    assert_false(td_layer_filter_unused(f, unused, sizeof unused));
    td_layer_filter_free(f);
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {"", ",", "3,", "a..b", ".a", "3-1", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q"};
    struct td_error err = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_error_clear(&err);
        assert_int_equal(td_layer_filter_check(bad[i], &err), TD_EINVAL);
        assert_non_null(strstr(err.msg, "--layers"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_ranges), cmocka_unit_test(parts_of_names),      cmocka_unit_test(both),
        cmocka_unit_test(what_fitted_nothing_is_known), cmocka_unit_test(nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
