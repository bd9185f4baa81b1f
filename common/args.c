/* args.c - command lines from a table.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_help(const struct td_args *a)
{
    const struct td_arg *t;

    printf("usage: %s\n\n%s\n\noptions:\n", a->usage, a->about);
    for (t = a->table; t->name; t++) {
        char left[80];
        int n;

        if (!t->help)
            continue;
        n = t->short_name ? snprintf(left, sizeof left, "-%c, ", t->short_name) : snprintf(left, sizeof left, "    ");
        snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", t->name, t->operand ? " " : "", t->operand ? t->operand : "");
        if (strlen(left) > 28)
            printf("  %s\n  %-28s  %s\n", left, "", t->help);
        else
            printf("  %-28s  %s\n", left, t->help);
    }
    printf("  %-28s  %s\n  %-28s  %s\n", "-h, --help", "this text", "    --version", "version and what was built in");
    if (a->examples)
        printf("\nexamples:\n%s", a->examples);
}

/* Edit distance of short words, for "did you mean". */
static int edit_distance(const char *a, const char *b)
{
    int row[64], i, j, la = (int)strlen(a), lb = (int)strlen(b);

    if (la > 60 || lb > 60)
        return 99;
    for (j = 0; j <= lb; j++)
        row[j] = j;
    for (i = 1; i <= la; i++) {
        int diag = row[0];

        row[0] = i;
        for (j = 1; j <= lb; j++) {
            int up = row[j], best = diag + (a[i - 1] != b[j - 1]);

            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diag = up;
            row[j] = best;
        }
    }
    return row[lb];
}

static int fail_unknown_option(const struct td_args *a, const char *given, struct td_error *err)
{
    const struct td_arg *t, *near = NULL;
    int best = 4;

    for (t = a->table; t->name; t++) {
        int d = edit_distance(given, t->name);

        if (t->help && d < best) {
            best = d;
            near = t;
        }
    }
    if (near)
        return td_fail(err, TD_EINVAL,
                       "unknown option --%s; did you mean --%s? (%s --help lists all)", given,
                       near->name, a->program);
    return td_fail(err, TD_EINVAL, "unknown option --%s (%s --help lists all)", given, a->program);
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

int td_args_parse(struct td_args *a, int argc, char **argv, struct td_error *err)
{
    int i, rc;

    for (i = 1; i < argc; i++) {
        const char *s = argv[i], *value = NULL;
        const struct td_arg *t;

        if (!strcmp(s, "--")) {
            a->command = argv + i + 1;
            break;
        }
        if (s[0] != '-' || !s[1]) {
            if (a->n_rest >= TD_ARG_LIST_MAX)
                return td_fail(err, TD_EINVAL, "more than %d operands", TD_ARG_LIST_MAX);
            a->rest[a->n_rest++] = s;
            continue;
        }
        if (!strcmp(s, "-h") || !strcmp(s, "--help")) {
            print_help(a);
            return 1;
        }
        if (!strcmp(s, "--version")) {
            printf("tapedeck %s (%s)\n%s\n", TD_VERSION, a->program, TD_FEATURES);
            return 1;
        }
        if (s[1] == '-') {
            const char *eq = strchr(s, '=');
            size_t n = eq ? (size_t)(eq - s) - 2 : strlen(s) - 2;

            t = find_option(a->table, s + 2, n, 0);
            if (!t)
                return fail_unknown_option(a, s + 2, err);
            if (eq)
                value = eq + 1;
        } else {
            t = find_option(a->table, NULL, 0, s[1]);
            if (!t)
                return td_fail(err, TD_EINVAL, "unknown option -%c (%s --help lists all)", s[1], a->program);
            if (s[2])
                value = s + 2;
        }
        if (t->type == TD_ARG_FLAG && value)
            return td_fail(err, TD_EINVAL, "--%s takes no value", t->name);
        if (t->type != TD_ARG_FLAG && t->type != TD_ARG_MAYBE && !value) {
            if (++i >= argc)
                return td_fail(err, TD_EINVAL, "--%s needs %s", t->name, t->operand);
            value = argv[i];
        }
        rc = store_value(t, value, err);
        if (rc)
            return rc;
    }
    return TD_OK;
}
