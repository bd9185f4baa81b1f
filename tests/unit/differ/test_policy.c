/* test_policy.c - thresholds from JSON: what is named changes, what is unknown is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "differ/policy.h"
#include "differ/policy_explain.h"

static int parse(const char *text, struct td_policy *p, struct td_error *err)
{
    cJSON *j = td_json_parse(text, strlen(text), NULL);
    int rc;

    assert_non_null(j);
    td_policy_default(p);
    td_error_clear(err);
    rc = td_policy_parse(j, p, err);
    cJSON_Delete(j);
    return rc;
}

static void test_named_thresholds_change_and_others_stay(void **state)
{
    struct td_policy p, d;
    struct td_error err;

    (void)state;
    td_policy_default(&d);
    assert_int_equal(parse("{\"name\":\"strict\",\"numerics\":{\"factor\":2,\"accept_format_change\":true},\"speed\":{\"ops_effect\":0.03}}",
                           &p, &err), TD_OK);
    assert_string_equal(p.name, "strict");
    assert_true(p.factor == 2 && p.ops_effect == 0.03 && p.accept_format_change);
    assert_true(p.floor == d.floor && p.server_effect == d.server_effect && p.tokens_alpha == d.tokens_alpha);
}

static void test_flags_are_off_until_the_file_sets_them(void **state)
{
    struct td_policy p;
    struct td_error err;

    (void)state;
    td_policy_default(&p);
    assert_false(p.tokens_exact || p.accept_format_change);
    assert_int_equal(parse("{\"tokens\":{\"exact\":true}}", &p, &err), TD_OK);
    assert_true(p.tokens_exact && !p.accept_format_change);
    assert_int_equal(parse("{\"tokens\":{\"exact\":false}}", &p, &err), TD_OK);
    assert_false(p.tokens_exact);
}

static void test_floors_by_kind_and_type(void **state)
{
    struct td_policy p;
    struct td_error err;

    (void)state;
    assert_int_equal(parse("{\"numerics\":{\"floors\":{\"gptq_gemm/F16\":8,\"gptq_gemm\":6}}}", &p, &err), TD_OK);
    assert_true(td_policy_floor(&p, "gptq_gemm", "F16", NAN) == 8);
    assert_true(td_policy_floor(&p, "gptq_gemm", "BF16", NAN) == 6);
    assert_true(td_policy_floor(&p, "other", "F16", NAN) == 4);
    assert_true(td_policy_floor(&p, "other", "F16", 1) == 1); /* what the replayer's judge proposes */
    assert_true(td_policy_floor(&p, "other", "F16", 5) == 4); /* a fixture cannot excuse itself */
    assert_true(td_policy_floor(&p, "other", "F16", INFINITY) == 4);
    assert_int_equal(parse("{\"numerics\":{\"floor\":3}}", &p, &err), TD_OK);
    assert_true(td_policy_floor(&p, "other", "F16", 5) == 3); /* a policy that names it stands over that */
}

static void refused(const char *text, const char *word)
{
    struct td_policy p;
    struct td_error err;

    assert_int_equal(parse(text, &p, &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, word));
}

static void test_mistakes_are_refused_by_name(void **state)
{
    (void)state;
    refused("{\"numerics\":{\"flor\":3}}", "floor");
    refused("{\"number\":{}}", "numerics tokens collapse scores speed");
    refused("{\"speed\":{\"alpha\":7}}", "speed.alpha");
    refused("{\"scores\":{\"nll\":1}}", "nll_max text_nll_max distance_max");
    refused("{\"tokens\":{\"gap_max\":\"high\"}}", "tokens.gap_max");
    refused("{\"numerics\":{\"floors\":3}}", "object");
    refused("{\"numerics\":{\"factor\":\"NaN\"}}", "numerics.factor");
    refused("[]", "object");
    refused("{\"tokens\":{\"exact\":1}}", "tokens.exact must be true or false");
    refused("{\"tokens\":{\"exakt\":true}}", "alpha gap_max");
    refused("{\"tokens\":{\"exakt\":true}}", " exact");
    refused("{\"scores\":{\"exact\":true}}", "scores.exact");
}

/* What is written can be read again and says the same. */
static void test_writing_and_reading_agree(void **state)
{
    struct td_policy p, q;
    struct td_error err;
    struct td_buf b = TD_BUF_INIT(1 << 16);
    struct td_jw w;

    (void)state;
    assert_int_equal(parse("{\"numerics\":{\"floors\":{\"gptq_gemm\":6}},\"tokens\":{\"gap_max\":0.25,\"exact\":true}}", &p, &err), TD_OK);
    td_jw_init(&w, &b, true);
    td_policy_write(&p, &w, NULL);
    assert_int_equal(parse(td_buf_str(&b), &q, &err), TD_OK);
    assert_true(q.gap_max == 0.25 && q.n_floors == 1 && q.floors[0].floor == 6 && q.start_spread == p.start_spread);
    assert_true(q.tokens_exact && !q.accept_format_change);
    td_buf_release(&b);
}

static void test_exact_is_a_switch_of_the_policy(void **state)
{
    struct td_policy p;
    struct td_error err;

    (void)state;
    assert_int_equal(parse("{}", &p, &err), TD_OK);
    assert_false(p.tokens_exact);
    assert_int_equal(parse("{\"tokens\":{\"exact\":true,\"alpha\":0.01}}", &p, &err), TD_OK);
    assert_true(p.tokens_exact && p.tokens_alpha == 0.01);
    refused("{\"tokens\":{\"exact\":1}}", "tokens.exact must be true or false");
    refused("{\"tokens\":{\"exakt\":true}}", "known in tokens: alpha gap_max clear_gap clear_share shift_max unsure_max exact");
}

/* Every threshold is explained; one that was changed is shown beside its default. */
static void test_each_threshold_is_explained(void **state)
{
    struct td_policy p;
    struct td_error err;
    struct td_buf b = TD_BUF_INIT(1 << 16);

    (void)state;
    assert_int_equal(parse("{\"name\":\"strict\",\"numerics\":{\"factor\":2,\"floors\":{\"gemm\":3}}}", &p, &err), TD_OK);
    td_policy_explain(&p, &b);
    assert_non_null(strstr(td_buf_str(&b), "policy strict\n"));
    assert_non_null(strstr(td_buf_str(&b), "\nnumerics.factor = 2  (default 4)\n"));
    assert_non_null(strstr(td_buf_str(&b), "\nnumerics.floors =\n    gemm: 3\n"));
    assert_non_null(strstr(td_buf_str(&b), "\ntokens.exact = false\n"));
#define THRESHOLD(section, key, field, preset, min, max, meaning, source)                          \
    assert_non_null(strstr(td_buf_str(&b), "\n" #section "." #key " = "));                         \
    assert_true(strlen(meaning) > 20 && strlen(source) > 20);
#define FLAG(section, key, field, meaning, source) THRESHOLD(section, key, field, 0, 0, 0, meaning, source)
#include "differ/policy.def"
#undef FLAG
#undef THRESHOLD
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_thresholds_change_and_others_stay),
        cmocka_unit_test(test_flags_are_off_until_the_file_sets_them),
        cmocka_unit_test(test_floors_by_kind_and_type),
        cmocka_unit_test(test_mistakes_are_refused_by_name),
        cmocka_unit_test(test_writing_and_reading_agree),
        cmocka_unit_test(test_exact_is_a_switch_of_the_policy),
        cmocka_unit_test(test_each_threshold_is_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
