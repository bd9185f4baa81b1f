/* test_coverage.c - what a fixture says of the share of the GEMMs that it holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/coverage.h"
#include "tests/unit/format/format_sample.h"

static void expect(const struct td_coverage *c, const char *words)
{
    char out[TD_COVERAGE_WORDS];

    td_coverage_words(c, out);
    assert_string_equal(out, words);
}

static void share_and_what_was_not_seen_in_one_line(void **state)
{
    struct td_coverage c = {0};

    (void)state;
    expect(&c, "");
    assert_true(isnan(td_coverage_percent(&c)));
    c.graphs = 23;
    expect(&c, "gemms: what 23 launches of CUDA graphs computed was not seen");
    c.stored = 90, c.seen = 100, c.graphs = 0;
    expect(&c, "gemms: 90 of 100 that were seen are in the fixture (90.0 %)");
    c.unread = 100, c.unread_most = "machete", c.rested_ms = 2500, c.graphs = 2;
    expect(&c, "gemms: 90 of 200 that were seen are in the fixture (45.0 %), 100 launches of kernels that the tap does not read among those, most of all machete; "
               "for 2.5 s, between samples, none were looked at; what 2 launches of CUDA graphs computed was not seen");
    c.all_kinds = true, c.unread = 0, c.rested_ms = 0, c.graphs = 0;
    expect(&c, "ops: 90 of 100 that were seen are in the fixture (90.0 %)");
    c.extract = true;
    expect(&c, "ops: 90, an extract of a recording");
}

static void the_longest_line_fits(void **state)
{
    char name[400];
    char out[TD_COVERAGE_WORDS];
    const int64_t most = INT64_MAX / 4;
    const struct td_coverage c = {.stored = most, .seen = 1, .unread = most, .unread_most = name, .graphs = most, .rested_ms = most};

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    td_coverage_words(&c, out);
    assert_non_null(strstr(out, "CUDA graphs computed was not seen"));
    memcpy(name, "\033[2J", 4);
    td_coverage_words(&c, out);
    assert_non_null(strstr(out, "most of all ?[2Jx"));
}

/* A recording with a tap, and the same as a replay would have it. */
static struct td_fixture *recording(const char *dir, bool replay)
{
    cJSON *unread = cJSON_CreateNumber(7), *mode = json("{\"kinds\":\"all\"}");
    struct td_writer_options opt = {.tool = "test"};
    struct td_error err = {0};
    struct td_writer *w;
    struct td_fixture *fx;

    assert_int_equal(td_writer_create(dir, &opt, &w, &err), TD_OK);
    td_writer_count(w, "ops.seen", 10, 0);
    td_writer_count(w, "ops.kept", 4, 0);
    td_writer_count(w, "launches.graphs", 5, 0);
    td_writer_count(w, "launches.graphs_read", 3, 0);
    td_writer_count(w, "watch.rested_ms", INT64_MIN, 0); /* nonsense is nothing */
    td_writer_fact(w, "tap", "unread_gemms", unread);
    td_writer_fact_str(w, "tap", "unread_most", "machete");
    td_writer_fact(w, "tap", "mode", mode);
    if (replay)
        td_writer_fact_str(w, "replay", "provider", "cpu");
    assert_int_equal(td_writer_close(w, "complete", &err), TD_OK);
    assert_int_equal(td_fixture_open(dir, &fx, &err), TD_OK);
    cJSON_Delete(unread);
    cJSON_Delete(mode);
    return fx;
}

static void it_is_read_from_ledger_and_manifest(void **state)
{
    char root[64], dir[96];
    struct td_fixture *fx;
    struct td_coverage c;

    (void)state;
    assert_true(sample_scratch(root, sizeof root));
    snprintf(dir, sizeof dir, "%s/fx", root);
    fx = recording(dir, false);
    td_coverage_read(fx, &c);
    assert_int_equal(c.stored, 4);
    assert_int_equal(c.seen, 10);
    assert_int_equal(c.unread, 7);
    assert_string_equal(c.unread_most, "machete");
    assert_int_equal(c.graphs, 2);
    assert_int_equal(c.rested_ms, 0);
    assert_true(c.all_kinds);
    assert_false(c.extract);
    td_fixture_close(fx);
    snprintf(dir, sizeof dir, "%s/replayed", root);
    fx = recording(dir, true);
    td_coverage_read(fx, &c);
    expect(&c, "");
    assert_true(!c.stored && !c.seen && !c.unread && !c.graphs);
    td_fixture_close(fx);
    td_fs_remove_tree(root, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(share_and_what_was_not_seen_in_one_line), cmocka_unit_test(the_longest_line_fits),
                                       cmocka_unit_test(it_is_read_from_ledger_and_manifest)};

    return cmocka_run_group_tests_name("coverage", tests, NULL, NULL);
}
