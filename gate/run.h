/* run.h - the other programs as processes: start, listen to what they complain about, wait.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_RUN_H
#define TD_GATE_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define TD_RUN_MAX_ARGS 400

/* A command line for a program that lies beside ours. Strings are borrowed. */
struct td_command {
    char program[4096];
    char *argv[TD_RUN_MAX_ARGS + 1]; int argc; /* NULL-terminated; argv[0] is program */
    bool failed;                               /* too many arguments */
};
int td_command_init(struct td_command *c, const char *program, struct td_error *err);
void td_command_add(struct td_command *c, const char *arg);
void td_command_opt(struct td_command *c, const char *option, const char *value); /* nothing when value is NULL */

struct td_outcome {
    bool exited;
    int code;             /* of the exit */
    char ended[80];       /* "exit 4", "killed by signal 9 (Killed)" */
    char cause[480];      /* its error, else the last line that it wrote to stderr; "" when stderr is a terminal: it was seen there */
};
/* Run to the end. results_to_stdout: its stdout is ours (a report); else it goes to stderr, as progress does.
 * *stop set by a signal: the child is ended, TD_EINTR. */
int td_run(struct td_command *c, bool results_to_stdout, const volatile sig_atomic_t *stop, struct td_outcome *out,
           struct td_error *err);

#endif
