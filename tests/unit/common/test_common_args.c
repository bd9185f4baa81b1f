/* test_common_args.c - command lines: every type, both spellings, errors that help.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/args.h"
#include "common/log.h"

struct values { bool flag; const char *str; int64_t i, maybe; double num, seconds; struct td_arg_list list; };

static const char *command_usage;

static int parse(struct values *v, struct td_args *a, struct td_error *err, int argc, const char *const *words)
{
    static struct td_arg table[8];
    static char *argv[32];            /* what was parsed points into it */

    memset(argv, 0, sizeof argv);
    memset(v, 0, sizeof *v);
    memset(err, 0, sizeof *err);
    table[0] = (struct td_arg){"verbose", 'v', TD_ARG_FLAG, &v->flag, NULL, "talk", 0, 0};
    table[1] = (struct td_arg){"server", 's', TD_ARG_STR, &v->str, "HOST:PORT", "where", 0, 0};
    table[2] = (struct td_arg){"repeat", 0, TD_ARG_I64, &v->i, "N", "how often", 1, 100};
    table[3] = (struct td_arg){"scale", 0, TD_ARG_NUM, &v->num, "X", "how fast", 0, 0};
    table[4] = (struct td_arg){"header", 'H', TD_ARG_LIST, &v->list, "NAME", "more", 0, 0};
    table[5] = (struct td_arg){"flight", 0, TD_ARG_MAYBE, &v->maybe, "[=MB]", "or alone", 1, 100};
    table[6] = (struct td_arg){"duration", 0, TD_ARG_SECONDS, &v->seconds, "TIME", "how long", 0.1, 7200};
    table[7] = (struct td_arg){.name = NULL};
    *a = (struct td_args){.program = "p", .usage = "p", .about = "", .table = table, .command_usage = command_usage};
    for (int i = 0; i < argc; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    return td_args_parse(a, argc + 1, argv, err);
}

#define PARSE(...) parse(&v, &a, &err, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *[]){__VA_ARGS__})

static void test_types(void **state)
{
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    command_usage = "p --run --";
    assert_int_equal(PARSE("-v", "--", "cmd", "-v"), TD_OK);
    assert_string_equal(a.command[0], "cmd");
    assert_string_equal(a.command[1], "-v");
    assert_null(a.command[2]);
    command_usage = NULL;
    assert_int_equal(PARSE("-v", "--server", "h:1", "x", "--repeat=7", "--scale", "0.5", "-Ha", "-H", "b"), TD_OK);
    assert_true(v.flag && v.i == 7 && v.num == 0.5 && v.list.n == 2);
    assert_string_equal(v.str, "h:1");
    assert_string_equal(v.list.item[1], "b");
    assert_int_equal(a.n_rest, 1);
    assert_string_equal(a.rest[0], "x");
    assert_int_equal(PARSE("--flight", "7"), TD_OK);
    assert_int_equal(v.maybe, TD_ARG_ALONE);
    assert_int_equal(a.n_rest, 1);
    assert_int_equal(PARSE("--flight=7"), TD_OK);
    assert_int_equal(v.maybe, 7);
    assert_int_equal(PARSE("--flight=700"), TD_EINVAL);
    assert_int_equal(PARSE("-"), TD_OK); /* an operand */
    assert_int_equal(a.n_rest, 1);
}

static void test_seconds(void **state)
{
    static const struct { const char *text; double s; } GOOD[] = {{"60", 60}, {"60s", 60}, {"0.25", 0.25}, {"250ms", 0.25}, {"1.5m", 90},
                                                                  {"2min", 120}, {"1e3", 1000}, {"2h", 7200}};
    static const char *const BAD[] = {"", "s", "60 s", "60S", "1d", "60ss", "nan", "inf", "-1s", "0", "50ms", "3h", "1e400"};
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_int_equal(PARSE("--duration", GOOD[i].text), TD_OK);
        assert_true(v.seconds > GOOD[i].s - 1e-9 && v.seconds < GOOD[i].s + 1e-9);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(PARSE("--duration", BAD[i]), TD_EINVAL);
    assert_int_equal(PARSE("--duration", "60 s"), TD_EINVAL);
    assert_string_equal(err.msg, "--duration: \"60 s\" is no time; give seconds, or 90s, 15m, 2h");
    assert_int_equal(PARSE("--duration", "3h"), TD_EINVAL);
    assert_string_equal(err.msg, "--duration: 3h is not within 0.1 to 7200 seconds");
}

static void test_errors(void **state)
{
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    assert_int_equal(PARSE("--sever", "x"), TD_EINVAL);
    assert_non_null(strstr(err.msg, "did you mean --server?"));
    assert_int_equal(PARSE("--repeat", "7x"), TD_EINVAL);
    assert_int_equal(PARSE("--repeat", ""), TD_EINVAL);
    assert_int_equal(PARSE("--repeat", "101"), TD_EINVAL);
    assert_int_equal(PARSE("--repeat", "99999999999999999999"), TD_EINVAL);
    assert_int_equal(PARSE("--scale", "nan"), TD_EINVAL);
    assert_int_equal(PARSE("--server"), TD_EINVAL);
    assert_non_null(strstr(err.msg, "HOST:PORT"));
    assert_int_equal(PARSE("--verbose=1"), TD_EINVAL);
    assert_int_equal(PARSE("-x"), TD_EINVAL);
}

static void test_list_limit(void **state)
{
    const char *words[2 * TD_ARG_LIST_MAX + 2];
    struct values v;
    struct td_args a;
    struct td_error err;
    int n = 0;

    (void)state;
    for (int i = 0; i < 15; i++)
        words[n++] = "-Hx";
    assert_int_equal(parse(&v, &a, &err, n, words), TD_OK);
    assert_int_equal(v.list.n, 15);
}

static void test_behind_dashes(void **state)
{
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    command_usage = "p --run --";
    /* the command of a server that is to be started, without "--" */
    assert_int_equal(PARSE("vllm", "serve", "--port=8000"), TD_EINVAL);
    assert_string_equal(err.msg, "a command and its options belong behind \"--\": p --run -- vllm serve --port=8000");
    assert_int_equal(PARSE("-v", "server", "-s", "x"), TD_EINVAL); /* -s is ours, too: not taken */
    assert_null(v.str);
    assert_int_equal(PARSE("--port", "8000"), TD_EINVAL); /* no command in sight: a typing error */
    assert_null(strstr(err.msg, "behind"));
    assert_int_equal(PARSE("x", "--", "server"), TD_EINVAL);
    assert_non_null(strstr(err.msg, "\"x\" is no option"));
    /* a program that starts nothing: what follows is operands */
    command_usage = NULL;
    assert_int_equal(PARSE("-v", "--", "-x", "--server"), TD_OK);
    assert_null(a.command);
    assert_int_equal(a.n_rest, 2);
    assert_string_equal(a.rest[1], "--server");
}

static void test_one_dash(void **state)
{
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    assert_int_equal(PARSE("-server", "h:1"), TD_EINVAL); /* not -s erver */
    assert_string_equal(err.msg, "-server: long options have two dashes: --server");
    assert_int_equal(PARSE("-serve"), TD_OK);
    assert_string_equal(v.str, "erve");
}

static void test_common_options(void **state)
{
    struct values v;
    struct td_args a;
    struct td_error err;

    (void)state;
    assert_int_equal(PARSE("x"), TD_OK);
    assert_false(td_log_quiet());
    assert_int_equal(PARSE("-q", "x"), TD_OK);
    assert_true(td_log_quiet());
    assert_int_equal(a.n_rest, 1);
    td_log_set_quiet(false);
    assert_int_equal(PARSE("--color=always", "--colour", "never", "x"), TD_OK);
    assert_false(td_log_colour(1));
    assert_int_equal(PARSE("--color", "always"), TD_OK);
    assert_true(td_log_colour(1)); /* also into a pipe, and with NO_COLOR */
    assert_int_equal(PARSE("--color", "auto"), TD_OK);
    assert_int_equal(PARSE("--color", "pink"), TD_EINVAL);
    assert_int_equal(PARSE("--color"), TD_EINVAL);
    assert_int_equal(PARSE("--quite"), TD_EINVAL);
    assert_non_null(strstr(err.msg, "--quiet"));
    assert_int_equal(PARSE("--color", "auto"), TD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_behind_dashes), cmocka_unit_test(test_one_dash), cmocka_unit_test(test_common_options), cmocka_unit_test(test_types), cmocka_unit_test(test_seconds), cmocka_unit_test(test_errors), cmocka_unit_test(test_list_limit)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
