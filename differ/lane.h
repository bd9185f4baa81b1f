/* lane.h - a lane judges one kind of evidence (tokens, collapse, scores, ops, speed): what a
 * lane does, and what it found.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_LANE_H
#define TD_DIFFER_LANE_H

#include <stdbool.h>
#include <stddef.h>

#include "differ/verdict.h"

struct td_buf;
struct td_comparison;
struct td_error;
struct td_jw;

enum td_lane_id {
#define LANE(ID, name) TD_LANE_##ID,
#include "differ/lanes.def"
#undef LANE
    TD_N_LANES
};
const char *td_lane_name(enum td_lane_id id); /* "tokens", "collapse" ... */

/* ---- what a lane found ----------------------------------------------------------------------- */

#define TD_LANE_MAX_NOTES 160 /* and one that counts those beyond; what data cannot show may take eight for each of 16 kinds of op */
/* A sentence of a lane. Verdict NOT_JUDGED: information, or what the user can do next. */
struct td_note { enum td_verdict verdict; char *text; };

struct td_lane {
    enum td_lane_id id;
    bool asked;                  /* takes part in the verdict */
    bool may_join;               /* answers were replayed: it is judged if its type says so (joins) */
    bool by_name;                /* the user named it: without evidence it is inconclusive */
    void *measured;              /* its measurement, a struct of its own; NULL: not measured yet */
    enum td_verdict verdict;     /* the gravest of its notes */
    struct td_note notes[TD_LANE_MAX_NOTES + 1];
    int n_notes, n_more;         /* n_more: notes that were left out */
};

/* Add a sentence. The lane's verdict becomes the graver of v and what it was. After
 * TD_LANE_MAX_NOTES sentences a last one tells how many more there were. A sentence that is graver than one of these takes the place
 * of the last of the least grave ones. */
__attribute__((format(printf, 3, 4)))
void td_lane_note(struct td_lane *lane, enum td_verdict v, const char *fmt, ...);
/* Note that there is no evidence: inconclusive when the user named the lane, else not judged. */
__attribute__((format(printf, 2, 3)))
void td_lane_no_evidence(struct td_lane *lane, const char *fmt, ...);
void td_lanes_init(struct td_lane lanes[TD_N_LANES]);
/* Free the notes. The caller frees what `measured` points to. */
void td_lanes_release(struct td_lane lanes[TD_N_LANES]);
/* The gravest verdict of the lanes that were asked for. */
enum td_verdict td_lanes_verdict(const struct td_lane lanes[TD_N_LANES]);

/* ---- what a lane does ------------------------------------------------------------------------ */

/* What was replayed. gate names it (differ --replayed), and the lanes that judge it are asked
 * for. */
#define TD_REPLAYED_ANSWERS 1u /* requests on the candidate's server */
#define TD_REPLAYED_OPS 2u     /* ops on the candidate's build */
#define TD_REPLAYED_PAIRS 4u   /* baseline and candidate side by side, so that they can be timed */

/* The functions of one lane. measure, has_evidence and judge must be there; another one may be
 * NULL. The report functions are called whether or not the lane was asked for: it is theirs to
 * print nothing. */
struct td_lane_type {
    unsigned judges;             /* TD_REPLAYED_* */
    bool optional;               /* not every server offers this evidence: if only --replayed asked
                                    for it, missing evidence is not inconclusive */
    size_t measured_size;        /* bytes of its measurement, which starts as zeros */

    /* Measure. Every lane is measured, in the order of lanes.def, asked for or not. */
    int (*measure)(struct td_comparison *c, void *measured, struct td_error *err);
    /* Free what the measurement points to. Called after a failure of measure, too. */
    void (*release)(void *measured);
    /* Is there anything to judge? Such lanes are asked for when the user names none. */
    bool (*has_evidence)(const void *measured);
    /* Is there evidence that was recorded on purpose? Then a lane that nobody asked for is judged with the answers that were
     * replayed. */
    bool (*joins)(const void *measured);
    /* Turn the measurement into notes. Called when the lane was asked for and all lanes have
     * measured, so a lane may read the measurements of others. */
    void (*judge)(const struct td_comparison *c, struct td_lane *lane);

    /* Verdict line: " name=figure" of answers, then of ops, then of the cause. */
    void (*add_answer_figures)(const struct td_comparison *c, struct td_buf *line);
    void (*add_op_figures)(const struct td_comparison *c, struct td_buf *line);
    void (*add_cause)(const struct td_comparison *c, struct td_buf *line);
    /* The report: the lane's verdict in one line, with the figure and its limit; NULL or nothing
     * appended: the first of its gravest notes. */
    void (*headline)(const struct td_comparison *c, struct td_buf *out);
    /* The report: a member of the top object, with all that the lane measured. */
    void (*write_json)(const struct td_comparison *c, struct td_jw *w);
};

#endif
