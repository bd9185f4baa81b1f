/* test_lanes.c - which lanes a command line asks for, and the notes of a lane.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <string.h>

#include "differ/lanes.h"

static struct td_lane lanes[TD_N_LANES];
static struct td_error err;

static int reset(void **state)
{
    (void)state;
    td_lanes_init(lanes);
    td_error_clear(&err);
    return 0;
}

/* One character a lane: - not asked for, a asked for, n asked for by name. */
static const char *asked(void)
{
    static char out[TD_N_LANES + 1];

    for (int i = 0; i < TD_N_LANES; i++)
        out[i] = lanes[i].by_name ? 'n' : lanes[i].asked ? 'a' : '-';
    return out;
}

static void every_lane_has_what_a_comparison_calls(void **state)
{
    (void)state;
    for (int i = 0; i < TD_N_LANES; i++) {
        assert_non_null(td_lane_types[i]->measure);
        assert_non_null(td_lane_types[i]->has_evidence);
        assert_non_null(td_lane_types[i]->judge);
        assert_true(td_lane_types[i]->measured_size > 0);
        assert_true(td_lane_types[i]->judges != 0);
    }
}

static void lanes_are_asked_for_by_name(void **state)
{
    char list[TD_LANES_LIST_MAX];

    (void)state;
    assert_string_equal(td_lanes_list(",", list), "tokens,collapse,scores,ops,speed");
    assert_int_equal(td_lanes_ask(lanes, NULL, &err), TD_OK);
    assert_string_equal(asked(), "-----");
    assert_int_equal(td_lanes_ask(lanes, "speed,tokens", &err), TD_OK);
    assert_string_equal(asked(), "n---n");
    assert_int_equal(td_lanes_ask(lanes, list, &err), TD_OK);
    assert_string_equal(asked(), "nnnnn");
}

static void unknown_lanes_are_refused(void **state)
{
    static const char *const BAD[] = {"", "token", "tokenss", ",ops", "tokens collapse"};

    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        reset(NULL);
        assert_int_equal(td_lanes_ask(lanes, BAD[i], &err), TD_EINVAL);
        assert_non_null(strstr(err.msg, "tokens, collapse, scores, ops, speed"));
    }
}

/* gate names what it replayed; scores are optional, for not every server offers them. */
static void lanes_are_asked_for_by_what_was_replayed(void **state)
{
    (void)state;
    assert_int_equal(td_lanes_ask_for_replayed(lanes, NULL, &err), TD_OK);
    assert_string_equal(asked(), "-----");
    assert_int_equal(td_lanes_ask_for_replayed(lanes, "answers", &err), TD_OK);
    assert_string_equal(asked(), "nna--");
    reset(NULL);
    assert_int_equal(td_lanes_ask_for_replayed(lanes, "ops,pairs", &err), TD_OK);
    assert_string_equal(asked(), "---nn");
    assert_int_equal(td_lanes_ask_for_replayed(lanes, "ops,answer", &err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "answers, ops, pairs"));
}

static void notes_that_are_left_out_are_counted(void **state)
{
    char last[20];

    (void)state;
    for (int i = 0; i < TD_LANE_MAX_NOTES; i++)
        td_lane_note(&lanes[0], TD_INCONCLUSIVE, "note %d", i);
    assert_int_equal(lanes[0].n_notes, TD_LANE_MAX_NOTES);
    td_lane_note(&lanes[0], TD_PASS, "one more");
    assert_string_equal(lanes[0].notes[TD_LANE_MAX_NOTES].text, "1 more such note is left out; the verdict counts it");
    snprintf(last, sizeof last, "note %d", TD_LANE_MAX_NOTES - 1);
    assert_string_equal(lanes[0].notes[TD_LANE_MAX_NOTES - 1].text, last);
    td_lane_note(&lanes[0], TD_BROKEN, "the gravest");
    td_lane_note(&lanes[0], TD_INCONCLUSIVE, "three more");
    assert_int_equal(lanes[0].n_notes, TD_LANE_MAX_NOTES + 1);
    assert_string_equal(lanes[0].notes[TD_LANE_MAX_NOTES].text, "3 more such notes are left out; the verdict counts them");
    assert_string_equal(lanes[0].notes[TD_LANE_MAX_NOTES - 1].text, "the gravest");
    assert_string_equal(lanes[0].notes[0].text, "note 0");
    assert_int_equal(lanes[0].verdict, TD_BROKEN);
    td_lanes_release(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_lane_has_what_a_comparison_calls, reset),
        cmocka_unit_test_setup(lanes_are_asked_for_by_name, reset),
        cmocka_unit_test_setup(unknown_lanes_are_refused, reset),
        cmocka_unit_test_setup(lanes_are_asked_for_by_what_was_replayed, reset),
        cmocka_unit_test_setup(notes_that_are_left_out_are_counted, reset),
    };

    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
