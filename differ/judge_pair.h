/* judge_pair.h - one comparison from the folders of its fixtures to its report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_JUDGE_PAIR_H
#define TD_DIFFER_JUDGE_PAIR_H

#include "common/args.h"
#include "common/json.h"
#include "differ/lane.h"
#include "differ/policy.h"
#include "metrics/figures_json.h"

#define TD_DIFFER_TOOL "tapedeck differ " TD_VERSION

struct td_judge_options {
    struct td_policy policy;
    const char *policy_file;                   /* where the policy came from, for commands under NEXT; or NULL */
    const char *lanes, *replayed;              /* as in the command line, checked; or NULL */
    const char *gate_builds, *gate_servers;    /* of gate, the options that named the builds, and
                                                  the servers, for commands under NEXT; or NULL */
    bool terms;                                /* times in terms of `dialect` are wanted too */
    enum td_dialect dialect;
    struct td_wanted wanted;
    struct td_arg_list more, live, calibrate;  /* --new, --baseline-live, --calibrate */
};

/* Compare a baseline with a candidate. What goes wrong becomes a report as well: broken, with the
 * cause; its exit code is 2 when the two must not be compared. The caller frees the report. NULL:
 * out of memory. */
cJSON *td_judge_pair(const struct td_judge_options *o, const char *base, const char *candidate);
/* Judge one recording by absolute rules (differ/smoke.h). Broken as above. */
cJSON *td_judge_smoke(const char *recording);
/* A report of fixtures that could not be judged. base: NULL: none is named. */
cJSON *td_judge_broken(const char *base, const struct td_error *err);

#endif
