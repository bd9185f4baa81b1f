/* args_help.c - print --help: usage, what the program is for, options, environment, examples.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/args_help.h"

#include <stdio.h>
#include <string.h>

#include "common/invocation.h"

#define LEFT_COLUMNS 28
#define RIGHT_AT (2 + LEFT_COLUMNS + 2)
#define TEXT_MAX 4096

static const struct td_arg_env EVERYWHERE[] = {
    {"TD_LOG", "what is logged: 0 errors, 1 warnings (default), 2 information, 3 debug; for a part: replay:3,diff:1"},
    {"NO_COLOR", "when set: no colour, as with --color never"},
    {NULL, NULL},
};

static const struct { const char *left, *right; } COMMON[] = {
    {"-q, --quiet", "no progress, no notes, of a summary the last line alone; warnings and errors stay"},
    {"    --color WHEN", "auto (default: on a terminal), always or never"},
    {"    --max-memory SIZE", "memory for what is read: 8G, 512M (default: half of the machine's, or of what its "
                              "container may use); what needs more is refused by name"},
    {"-h, --help", "this text"},
    {"    --version", "version and what was built in"},
};

void td_args_help_text(const char *text, int indent)
{
    char expanded[TEXT_MAX];
    const char *s = td_invocation_expand(text, expanded, sizeof expanded);
    int column = indent;

    while (*s) {
        int n = (int)strcspn(s, " \n"), gap = (int)strspn(s + n, " ");

        if (column > indent && column + n > TD_HELP_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
        }
        printf("%.*s", n, s);
        column += n;
        s += n + gap;
        if (*s == '\n') {
            printf("\n%*s", s[1] ? indent : 0, "");
            column = indent;
            s++;
        } else if (*s && column + gap + (int)strcspn(s, " \n") <= TD_HELP_COLUMNS) {
            printf("%*s", gap, "");
            column += gap;
        } else if (*s) {
            column = TD_HELP_COLUMNS + 1; /* the next word begins a line */
        }
    }
    printf("\n");
}

void td_args_help_row(const char *left, const char *right)
{
    if (strlen(left) > LEFT_COLUMNS)
        printf("  %s\n  %-*s  ", left, LEFT_COLUMNS, "");
    else
        printf("  %-*s  ", LEFT_COLUMNS, left);
    td_args_help_text(right, RIGHT_AT);
}

static void print_options(const struct td_arg *t)
{
    size_t i;

    printf("\noptions:\n");
    for (; t->name; t++) {
        char left[80], head[8] = "    ";

        if (!t->help)
            continue;
        if (t->short_name)
            snprintf(head, sizeof head, "-%c, ", t->short_name);
        snprintf(left, sizeof left, "%s--%s%s%s", head, t->name,
                 t->operand && t->operand[0] != '[' ? " " : "", t->operand ? t->operand : "");
        td_args_help_row(left, t->help);
    }
    for (i = 0; i < sizeof COMMON / sizeof *COMMON; i++)
        td_args_help_row(COMMON[i].left, COMMON[i].right);
}

void td_args_help_environment(const struct td_arg_env *more)
{
    const struct td_arg_env *e;

    printf("\nenvironment:\n");
    for (e = more; e && e->name; e++)
        td_args_help_row(e->name, e->help);
    for (e = EVERYWHERE; e->name; e++)
        td_args_help_row(e->name, e->help);
}

void td_args_help(const struct td_args *a)
{
    char expanded[TEXT_MAX];

    printf("usage: ");
    td_args_help_text(a->usage, (int)strlen("usage: "));
    printf("\n");
    td_args_help_text(a->about, 0);
    print_options(a->table);
    td_args_help_environment(a->environment);
    if (a->examples)
        printf("\nexamples:\n%s", td_invocation_expand(a->examples, expanded, sizeof expanded));
}
