/* gate_options.h - what the user of `gate` asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_GATE_OPTIONS_H
#define TD_GATE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/args.h"
#include "report/report.h"

#define TD_GATE_MAX_ROUNDS 64

/* Which regressions end gate with exit code 1. */
enum td_fail_on { TD_FAIL_ON_ANY, TD_FAIL_ON_WRONG, TD_FAIL_ON_SLOWER };

struct td_gate_options {
    const char *const *operand; int n_operands;   /* fixtures, and folders of them */
    /* what is judged */
    const char *server, *baseline_server, *build, *baseline_build, *provider, *checkpoint;
    const char *served_as, *ops, *as;
    struct td_arg_list header_files;              /* those of -H @FILE */
    struct td_arg_list calibrate, headers, show_headers, redact_headers, allow_paths, only, build_env, baseline_env;
    const char *timing, *repeat, *api, *timeout, *max_ops, *op_repeat, *deadline, *time, *plan, *reference;
    const char *cache, *cache_size;
    int64_t rounds;                               /* of both servers, or of one */
    int64_t most_rounds;                          /* to go on to, where these show too little */
    int64_t max_body_mib;                         /* 0: not given */
    int64_t wait;                                 /* 0: no; TD_ARG_ALONE; seconds */
    bool smoke;
    /* how */
    const char *lanes, *policy;
    const char *metrics_as, *goodput, *percentiles; /* differ's, or NULL */
    bool exact, explain_policy;
    enum td_fail_on fail_on;
    const char *accept, *until;                   /* a reason and a date, or both NULL */
    /* where results go */
    struct td_report_outputs out;
    const char *keep, *artifacts;                 /* new folders, or NULL */
};

/* Read the command line. Returns -1: go on; else the exit code, with help or the error printed. */
int td_gate_options_read(struct td_gate_options *o, int argc, char **argv);
/* Does this run judge the lane, as "speed"? So it does unless --lanes names others only. */
bool td_gate_judges(const struct td_gate_options *o, const char *lane);
/* The usage error that td_gate_options_read() printed; "" when there was none. */
const char *td_gate_options_error(void);

#endif
