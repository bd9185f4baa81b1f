/* args.c - command lines from a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args_help.h"
#include "common/invocation.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/nearest.h"
#include "common/time_unit.h"

/* The options of every program. A table that has one of these names gets its value as well. */
static bool quiet;
static const char *colours, *max_memory;
static const struct td_arg COMMON[] = {
    {"quiet", 'q', TD_ARG_FLAG, &quiet, NULL, "", 0, 0},
    {"color", 0, TD_ARG_STR, &colours, "WHEN", "", 0, 0},
    {"colour", 0, TD_ARG_STR, &colours, "WHEN", NULL, 0, 0},
    {"max-memory", 0, TD_ARG_STR, &max_memory, "SIZE", "", 0, 0},
    {NULL, 0, TD_ARG_FLAG, NULL, NULL, NULL, 0, 0},
};

/* "fixture show" is called "tapedeck fixture show" where the driver is installed. */
static const char *called(const struct td_args *a, char out[80])
{
    snprintf(out, 80, "%s%s", td_invocation_prefix(), a->program);
    return out;
}

static const char *nearest_option(const struct td_arg *t, const char *given, size_t n)
{
    static char word[64];
    const char *near = NULL;
    int best = 99, d;

    snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), given);
    for (; t->name; t++) {
        d = t->help ? td_nearest_distance(word, t->name) : 99;
        if (d < best && td_nearest_fits(word, d)) {
            best = d;
            near = t->name;
        }
    }
    return near;
}

/* given : "--sever=x" or "-x", as it was typed */
static int fail_unknown_option(const struct td_args *a, const char *given, struct td_error *err)
{
    const char *near = NULL;
    char name[80];
    int n = (int)strcspn(given, "=");

    if (n > 2 && given[1] == '-') {
        near = nearest_option(a->table, given + 2, (size_t)n - 2);
        if (!near)
            near = nearest_option(COMMON, given + 2, (size_t)n - 2);
    }
    if (near)
        return td_fail(err, TD_EINVAL, "unknown option %.*s; did you mean --%s? (%s --help lists all)",
                       n, given, near, called(a, name));
    return td_fail(err, TD_EINVAL, "unknown option %.*s (%s --help lists all)", n, given,
                   called(a, name));
}

static int store_seconds(const struct td_arg *t, const char *v, struct td_error *err)
{
    char *end;
    const double x = strtod(v, &end), unit = td_time_unit(end);

    if (end == v || !unit || errno || x != x)
        return td_fail(err, TD_EINVAL, "--%s: \"%s\" is no time; give seconds, or 90s, 15m, 2h", t->name, v);
    if (t->max > t->min && (x * unit < t->min || x * unit > t->max))
        return td_fail(err, TD_EINVAL, "--%s: %s is not within %g to %g seconds", t->name, v, t->min, t->max);
    *(double *)t->value = x * unit;
    return TD_OK;
}

static int store_value(const struct td_arg *t, const char *v, struct td_error *err)
{
    char *end;

    errno = 0;
    switch (t->type) {
    case TD_ARG_FLAG:
        *(bool *)t->value = true;
        return TD_OK;
    case TD_ARG_STR:
        *(const char **)t->value = v;
        return TD_OK;
    case TD_ARG_LIST: {
        struct td_arg_list *l = t->value;

        if (l->n >= TD_ARG_LIST_MAX)
            return td_fail(err, TD_EINVAL, "--%s: given more than %d times", t->name, TD_ARG_LIST_MAX);
        l->item[l->n++] = v;
        return TD_OK;
    }
    case TD_ARG_MAYBE:
        if (!v) {
            *(int64_t *)t->value = TD_ARG_ALONE;
            return TD_OK;
        }                             /* fall through */
    case TD_ARG_I64: {
        long long x = strtoll(v, &end, 10);

        if (!*v || *end || errno)
            return td_fail(err, TD_EINVAL, "--%s: \"%s\" is no whole number", t->name, v);
        if (t->max > t->min && ((double)x < t->min || (double)x > t->max))
            return td_fail(err, TD_EINVAL, "--%s: %s is not within %g to %g", t->name, v, t->min, t->max);
        *(int64_t *)t->value = x;
        return TD_OK;
    }
    case TD_ARG_NUM: {
        double x = strtod(v, &end);

        if (!*v || *end || errno || x != x)
            return td_fail(err, TD_EINVAL, "--%s: \"%s\" is no number", t->name, v);
        if (t->max > t->min && (x < t->min || x > t->max))
            return td_fail(err, TD_EINVAL, "--%s: %s is not within %g to %g", t->name, v, t->min, t->max);
        *(double *)t->value = x;
        return TD_OK;
    }
    case TD_ARG_SECONDS: return store_seconds(t, v, err);
    }
    return TD_EINVAL;
}

static const struct td_arg *find_option(const struct td_arg *t, const char *name, size_t n,
                                        char short_name)
{
    for (; t->name; t++)
        if (name ? strlen(t->name) == n && !memcmp(t->name, name, n) : t->short_name && t->short_name == short_name)
            return t;
    return NULL;
}

/* The option that s ("--x", "--x=v", "-x", "-xv") names; *value: what follows in the same word. */
static int find_given(const struct td_arg *table, const char *s, const struct td_arg **found,
                      const char **value, struct td_error *err)
{
    const char *eq = strchr(s, '=');
    const struct td_arg *whole;

    *value = NULL;
    if (s[1] == '-') {
        *found = find_option(table, s + 2, eq ? (size_t)(eq - s) - 2 : strlen(s) - 2, 0);
        *value = eq ? eq + 1 : NULL;
        return TD_OK;
    }
    *found = find_option(table, NULL, 0, s[1]);
    whole = s[2] ? find_option(table, s + 1, strlen(s + 1), 0) : NULL;
    if (whole && whole->help) /* -out is no -o with the value "ut" */
        return td_fail(err, TD_EINVAL, "%s: long options have two dashes: -%s", s, s);
    *value = *found && s[2] ? s + 2 : NULL;
    return TD_OK;
}

/* Take the option argv[*i] and its value out of one table. 1: taken; 0: the table does not have it;
 * < 0: TD_EINVAL. */
static int take_option(const struct td_arg *table, char **argv, int argc, int *i,
                       struct td_error *err)
{
    const struct td_arg *t = NULL;
    const char *value;
    int rc = find_given(table, argv[*i], &t, &value, err);

    if (rc || !t)
        return rc;
    if (t->type == TD_ARG_FLAG && value)
        return td_fail(err, TD_EINVAL, "--%s takes no value", t->name);
    if (t->type != TD_ARG_FLAG && t->type != TD_ARG_MAYBE && !value) {
        if (*i + 1 >= argc)
            return td_fail(err, TD_EINVAL, "--%s needs %s", t->name, t->operand);
        value = argv[++*i];
    }
    rc = store_value(t, value, err);
    return rc ? rc : 1;
}

/* A command that stands before "--", or without it: its options would be read as ours. */
static int fail_command(const struct td_args *a, char **argv, int argc, int at, struct td_error *err)
{
    char usage[128], words[200] = "", name[80];
    size_t n = 0;
    int i;

    for (i = at; i < argc && strcmp(argv[i], "--") && n + 1 < sizeof words; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, " %s", argv[i]);
    if (i < argc && !strcmp(argv[i], "--"))
        return td_fail(err, TD_EINVAL, "\"%s\" is no option; the command begins behind \"--\" (%s --help says more)",
                       argv[at], called(a, name));
    return td_fail(err, TD_EINVAL, "a command and its options belong behind \"--\": %s%s%s",
                   td_invocation_expand(a->command_usage, usage, sizeof usage), words,
                   n + 1 < sizeof words ? "" : " ...");
}

static int take_operand(struct td_args *a, const char *s, struct td_error *err)
{
    if (a->n_rest >= TD_ARG_LIST_MAX)
        return td_fail(err, TD_EINVAL, "more than %d operands", TD_ARG_LIST_MAX);
    a->rest[a->n_rest++] = s;
    return TD_OK;
}

/* Tell log.c and memory.c what the options of every program ask for. */
static int apply_common(struct td_error *err)
{
    static const char *const word[] = {[TD_COLOUR_AUTO] = "auto", [TD_COLOUR_ALWAYS] = "always",
                                       [TD_COLOUR_NEVER] = "never"};
    int i;

    if (quiet)
        td_log_set_quiet(true);
    if (max_memory && td_memory_set(max_memory, err))
        return TD_EINVAL;
    if (!colours)
        return TD_OK;
    for (i = 0; i < 3; i++)
        if (!strcmp(colours, word[i])) {
            td_log_set_colours((enum td_log_colours)i);
            return TD_OK;
        }
    return td_fail(err, TD_EINVAL, "--color: \"%s\" is none of auto, always, never", colours);
}

/* -h, --help and --version. */
static bool answers_itself(const struct td_args *a, const char *s)
{
    if (!strcmp(s, "-h") || !strcmp(s, "--help"))
        td_args_help(a);
    else if (!strcmp(s, "--version"))
        printf("tapedeck %s (%s)\n%s\n", TD_VERSION, a->program, TD_FEATURES);
    else
        return false;
    return true;
}

int td_args_parse(struct td_args *a, int argc, char **argv, struct td_error *err)
{
    int i, rc;

    quiet = false;
    colours = max_memory = NULL;
    for (i = 1; i < argc; i++) {
        const char *s = argv[i];
        int from = i, taken;

        if (!strcmp(s, "--")) {
            if (a->command_usage)
                a->command = argv + i + 1;
            for (i++; !a->command && i < argc; i++)
                if (take_operand(a, argv[i], err))
                    return TD_EINVAL;
            break;
        }
        if (s[0] != '-' || !s[1]) {
            if (a->command_usage)
                return fail_command(a, argv, argc, i, err);
            if (take_operand(a, s, err))
                return TD_EINVAL;
            continue;
        }
        if (answers_itself(a, s))
            return 1;
        taken = take_option(a->table, argv, argc, &i, err);
        rc = taken < 0 ? taken : take_option(COMMON, argv, argc, &from, err);
        if (rc < 0)
            return rc;
        if (!taken && !rc)
            return fail_unknown_option(a, s, err);
        i = taken ? i : from;
    }
    return apply_common(err);
}
