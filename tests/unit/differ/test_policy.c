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

static void test_floors_by_kind_and_type(void **state)
{
    struct td_policy p;
    struct td_error err;

    (void)state;
    assert_int_equal(parse("{\"numerics\":{\"floors\":{\"gptq_gemm/F16\":8,\"gptq_gemm\":6}}}", &p, &err), TD_OK);
    assert_true(td_policy_floor(&p, "gptq_gemm", "F16", NAN) == 8);
    assert_true(td_policy_floor(&p, "gptq_gemm", "BF16", NAN) == 6);
    assert_true(td_policy_floor(&p, "other", "F16", NAN) == 4);
    assert_true(td_policy_floor(&p, "other", "F16", 5) == 5); /* what the replayer's judge proposes */
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
    refused("{\"number\":{}}", "numerics tokens scores speed");
    refused("{\"speed\":{\"alpha\":7}}", "speed.alpha");
    refused("{\"scores\":{\"nll\":1}}", "nll_max text_nll_max");
    refused("{\"tokens\":{\"gap_max\":\"high\"}}", "tokens.gap_max");
    refused("{\"numerics\":{\"floors\":3}}", "object");
    refused("{\"numerics\":{\"factor\":\"NaN\"}}", "numerics.factor");
    refused("[]", "object");
}

/* What is written can be read again and says the same. */
static void test_writing_and_reading_agree(void **state)
{
    struct td_policy p, q;
    struct td_error err;
    struct td_buf b = TD_BUF_INIT(1 << 16);
    struct td_jw w;

    (void)state;
    assert_int_equal(parse("{\"numerics\":{\"floors\":{\"gptq_gemm\":6}},\"tokens\":{\"gap_max\":0.25}}", &p, &err), TD_OK);
    td_jw_init(&w, &b, true);
    td_policy_write(&p, &w, NULL);
    assert_int_equal(parse(td_buf_str(&b), &q, &err), TD_OK);
    assert_true(q.gap_max == 0.25 && q.n_floors == 1 && q.floors[0].floor == 6 && q.start_spread == p.start_spread);
    td_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_thresholds_change_and_others_stay),
        cmocka_unit_test(test_floors_by_kind_and_type),
        cmocka_unit_test(test_mistakes_are_refused_by_name),
        cmocka_unit_test(test_writing_and_reading_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
