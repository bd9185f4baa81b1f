/* args.h - parse a command line by a table of options; print help with examples.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_COMMON_ARGS_H
#define TD_COMMON_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum td_arg_type { TD_ARG_FLAG, TD_ARG_STR, TD_ARG_I64, TD_ARG_NUM, TD_ARG_SECONDS, TD_ARG_LIST, TD_ARG_MAYBE };

#define TD_ARG_ALONE (-1)
#define TD_ARG_LIST_MAX 64
/* The values of an option that may be given several times. */
struct td_arg_list { const char *item[TD_ARG_LIST_MAX]; int n; };

struct td_arg {
    const char *name;     /* "server" for --server; table ends with NULL */
    char short_name;      /* 'o' for -o, or 0 */
    enum td_arg_type type;
    void *value;          /* by type: bool *, const char **, int64_t *, double *, double * ("90", "90s", "15m"), td_arg_list *,
                             int64_t * of MAYBE (--x=N; --x alone: TD_ARG_ALONE) */
    const char *operand;  /* "HOST:PORT", shown in the help; NULL for a flag */
    const char *help;     /* one sentence; NULL hides the option (an old name that still works) */
    double min, max;      /* numbers: checked when max > min */
};

/* An environment variable that the program reads. */
struct td_arg_env { const char *name, *help; };

/* In these texts, "{record}" is written as the user calls that program (common/invocation.h). The
 * help breaks their lines; a line feed begins a new line. Lines of examples are not broken. */
struct td_args {
    const char *program;  /* "record", "fixture show" */
    const char *usage;    /* "{record} --server HOST:PORT [options]" */
    const char *about;    /* a sentence or some */
    const struct td_arg *table;
    const char *examples; /* lines, shown at the end of --help */
    const struct td_arg_env *environment; /* ends with NULL; NULL: none but those of every program */
    const char *command_usage; /* "{record} --run --", for a program that starts the command behind
                                  it and takes no operands; NULL: what follows "--" is operands */
    /* results */
    const char *rest[TD_ARG_LIST_MAX]; int n_rest;   /* operands */
    char **command;       /* what follows "--", NULL-terminated, or NULL */
};

/* Parse the command line. 0: go on; 1: --help or --version was printed, exit 0; TD_EINVAL: a usage
 * error, print err and exit 2. Strings are borrowed from argv. "--x=v" and "--x v" are the same;
 * the error about an unknown option names the nearest known one. Every program knows --quiet,
 * --color and --max-memory: they set what log.h and memory.h ask for, also when the table has an option of that name. */
int td_args_parse(struct td_args *args, int argc, char **argv, struct td_error *err);

#endif
