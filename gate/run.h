/* run.h - run the programs beside gate: start, listen to their errors, wait.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_RUN_H
#define TD_GATE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/args.h"

#define TD_RUN_MAX_ARGS 600

/* The command line of a program that lies beside ours. Arguments are borrowed. */
struct td_command {
    char program[4096];
    char *argv[TD_RUN_MAX_ARGS + 1]; int argc; /* NULL-terminated; argv[0] is program */
    bool failed;                               /* too many arguments; td_run() reports it */
    const struct td_arg_list *headers;         /* given by a descriptor, for the command line can be
                                                  seen by everybody; NULL: none */
};
/* Find the program. TD_ENOTFOUND: it is not there. */
int td_command_init(struct td_command *c, const char *program, struct td_error *err);
void td_command_add(struct td_command *c, const char *arg);
/* Add an option and its value; nothing when value is NULL. */
void td_command_opt(struct td_command *c, const char *option, const char *value);

/* How a program ended. */
struct td_outcome {
    bool exited;
    int code;             /* exit code; -1: it did not exit by itself */
    char ended[80];       /* "exit 4", "killed by signal 9 (Killed)" */
    bool is_error;        /* the cause is an error that it printed. Nobody has seen it yet, unless the
                             program ended with 0: the caller says it */
    char cause[480];      /* its error, else the last line that it wrote to stderr (unless that is
                             a terminal), else the same as ended */
};
/* The signal that asked gate to end, or 0; set by main's handler. */
extern volatile sig_atomic_t td_gate_signal;

/* Where a program's standard output goes: to ours, to standard error as progress does, nowhere. */
enum td_run_output { TD_RUN_TO_STDOUT, TD_RUN_TO_STDERR, TD_RUN_DROP };

/* Run a program to its end. When td_gate_signal is set, the program is ended and TD_EINTR
 * returned. */
int td_run(struct td_command *c, enum td_run_output output, struct td_outcome *out,
           struct td_error *err);

#endif
