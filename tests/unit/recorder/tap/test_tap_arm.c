/* test_tap_arm.c - what the recorder asks for arrives in the tap, through the socket: every field
 * of a mode. Both ends are in this process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "format/fixture.h"
#include "recorder/tap_client/tap_client.h"
#include "recorder/tap/core/tap.h"

static char root[] = "/tmp/td-arm-XXXXXX";
static struct td_writer *writer;
static struct td_tap_client *links;

static void must(int rc, const struct td_error *err)
{
    if (rc)
        fail_msg("%s", err->msg);
}

static int setup(void **state)
{
    struct td_error err = {0};
    char path[64];

    (void)state;
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof path, "%s/run", root);
    setenv("TD_TAP_DIR", path, 1);
    tap_start_if_cold(); /* as the first call of a server would: its thread opens the socket */
    snprintf(path, sizeof path, "%s/fx", root);
    must(td_writer_create(path, &(struct td_writer_options){.tool = "record"}, &writer, &err),
         &err);
    must(
        td_tap_client_open(&(struct td_tap_client_target){.pid = getpid(), .wait_ms = 3000},
                           &(struct td_tap_client_options){.writer = writer, .ring_bytes = 1 << 20},
                           &links, &err),
        &err);
    return 0;
}

static int teardown(void **state)
{
    struct td_error err = {0};

    (void)state;
    must(td_tap_client_close(links, &err), &err);
    must(td_writer_close(writer, "complete", &err), &err);
    return td_fs_remove_tree(root, NULL);
}

static void arm(struct td_tap_client_mode mode)
{
    struct td_error err = {0};

    must(td_tap_client_arm(links, &mode, &err), &err);
}

static void a_mode_arrives(void **state)
{
    struct td_error err = {0};

    (void)state;
    arm((struct td_tap_client_mode){.steps = TD_TAP_CLIENT_SAMPLE,
                                    .percent = 2.5,
                                    .budget_bytes_per_s = 12345,
                                    .time_ppm = 678,
                                    .flight_mib = 9,
                                    .all_kinds = true});
    assert_true(tap_armed());
    assert_int_equal(tap_plan.mode, TAP_MODE_SAMPLE);
    assert_int_equal(tap_plan.percent_ppm, 25000);
    assert_int_equal(tap_plan.budget, 12345);
    assert_int_equal(tap_plan.time_ppm, 678);
    assert_int_equal(tap_plan.flight_bytes, 9 << 20);
    assert_int_equal(tap_plan.kinds, TAP_KINDS_ALL);
    assert_int_equal(tap_plan.ring_bytes, 1 << 20);
    must(td_tap_client_disarm(links, &err), &err);
    assert_false(tap_armed());
}

static void nothing_stays_of_the_mode_before(void **state)
{
    (void)state;
    arm((struct td_tap_client_mode){.steps = TD_TAP_CLIENT_ALL, .budget_bytes_per_s = -1});
    assert_int_equal(tap_plan.mode, TAP_MODE_ALL);
    assert_int_equal(tap_plan.budget, -1);
    assert_int_equal(tap_plan.time_ppm, 0);
    assert_int_equal(tap_plan.flight_bytes, 0);
    assert_int_equal(tap_plan.kinds, TAP_KINDS_GEMM);
}

static void the_defaults_are_those_of_auto(void **state)
{
    (void)state;
    arm((struct td_tap_client_mode){.steps = TD_TAP_CLIENT_SAMPLE,
                                    .time_ppm = TD_TAP_CLIENT_AUTO_TIME_PPM});
    assert_int_equal(tap_plan.percent_ppm, 100000);
    assert_int_equal(tap_plan.budget, 64 << 20);
    assert_int_equal(tap_plan.time_ppm, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_mode_arrives),
                                       cmocka_unit_test(nothing_stays_of_the_mode_before),
                                       cmocka_unit_test(the_defaults_are_those_of_auto)};

    return cmocka_run_group_tests_name("tap_arm", tests, setup, teardown);
}
