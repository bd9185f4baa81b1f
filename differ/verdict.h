/* verdict.h - lanes and verdicts: what each kind of evidence says, and how they are joined.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_VERDICT_H
#define TD_DIFFER_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

/* In the order in which the graver wins. NOT_JUDGED takes no part. */
enum td_verdict { TD_NOT_JUDGED, TD_PASS, TD_INCONCLUSIVE, TD_REGRESSED, TD_BROKEN };
const char *td_verdict_name(enum td_verdict v); /* "not judged", "pass" ... */
int td_verdict_exit(enum td_verdict v);         /* enum td_exit; NOT_JUDGED is inconclusive: nothing was judged */

enum td_lane_id { TD_LANE_TOKENS, TD_LANE_COLLAPSE, TD_LANE_SCORES, TD_LANE_OPS, TD_LANE_SPEED, TD_N_LANES };
const char *td_lane_name(enum td_lane_id id);

#define TD_LANE_MAX_NOTES 24 /* and one that counts those beyond */
struct td_note { enum td_verdict verdict; char *text; }; /* NOT_JUDGED: information, or the next step */

struct td_lane {
    enum td_lane_id id;
    bool asked;                  /* takes part in the verdict */
    bool by_name;                /* --lanes named it: no evidence is then inconclusive */
    enum td_verdict verdict;     /* the gravest of its notes */
    struct td_note notes[TD_LANE_MAX_NOTES + 1];
    int n_notes, n_more;         /* n_more: notes that were left out */
};

/* Add a sentence; the lane's verdict becomes the graver of what it was and v. Beyond the maximum
 * a last note says how many more there were. */
void td_lane_say(struct td_lane *lane, enum td_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* There is no evidence: inconclusive when the lane was asked for by name, else not judged. */
void td_lane_no_evidence(struct td_lane *lane, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void td_lanes_init(struct td_lane lanes[TD_N_LANES]);
void td_lanes_release(struct td_lane lanes[TD_N_LANES]);
enum td_verdict td_lanes_verdict(const struct td_lane lanes[TD_N_LANES]);

#endif
