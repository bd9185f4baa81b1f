/* comparison.h - all that one comparison reads, measures and finds. Lanes and reports read it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_COMPARISON_H
#define TD_DIFFER_COMPARISON_H

#include "common/beside.h"
#include "differ/absent.h"
#include "differ/align.h"
#include "differ/lane.h"
#include "differ/judged_ops.h"
#include "differ/policy.h"
#include "format/coverage.h"
#include "metrics/figures_json.h"

/* The checksum of the baseline's whole pack, gigabytes, made beside all else. */
struct td_baseline_pack {
    const struct td_fixture *fx;            /* NULL: it is not made */
    struct td_beside thread;
    struct td_error why;                    /* once it is waited for: what is wrong; code 0: nothing */
};

struct td_comparison {
    /* given */
    struct td_policy policy;
    const char *policy_file;                /* it came from there; NULL: the default one */
    const char *gate_builds, *gate_servers; /* as in td_judge_options */
    const struct td_wanted *wanted;         /* times in these terms, for reading; NULL: none */
    enum td_dialect dialect;
    struct td_side *side; size_t n_sides;   /* [0] the baseline, [1] the first candidate */
    /* read from the fixtures */
    struct td_groups groups;                /* answers to each prompt, side by side */
    struct td_groups compared;              /* of these, what the lanes of answers see: no rounds that serve timings alone */
    struct td_judged_ops base_ops, ops;         /* of the baseline; of the candidates, joined with
                                               them */
    struct td_baseline_pack pack;
    size_t bad_frames;                      /* of all fixtures: corrupt, and skipped */
    struct td_coverage coverage;            /* how much of its server's work the baseline
                                               recorded */
    /* found */
    struct td_lane lane[TD_N_LANES];        /* asked, by_name: given */
    struct td_absences absent;              /* what was planned and not seen, by lane */
    enum td_verdict verdict;
};

#endif
