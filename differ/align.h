/* align.h - open the fixtures of a comparison, check that they may be compared, and put the answers
 * to each prompt side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_ALIGN_H
#define TD_DIFFER_ALIGN_H

#include "format/fixture.h"

/* ---- fixtures -------------------------------------------------------------------------------- */

enum td_role {
    TD_BASE,      /* the baseline: the recording */
    TD_LIVE,      /* the baseline again, replayed on its live server beside the candidate */
    TD_NEW,       /* the candidate */
    TD_CALIBRATE, /* an honest build (known to be right): its differences are noise */
    TD_N_ROLES
};
/* The role in JSON: "baseline", "baseline-live", "candidate", "calibrate". */
const char *td_role_key(enum td_role role);

/* One fixture of a comparison. */
struct td_side {
    enum td_role role;
    int round;                 /* its place among the fixtures of its role, from 0 */
    struct td_fixture *fx;
    struct td_exchange *xs;    /* [n_xs] all its exchanges */
    size_t n_xs;
    struct td_place *place;    /* [n_xs] where they begin in the file; NULL: they were read with all that they hold */
    size_t bad_frames;         /* frames of exchanges that are corrupt and were skipped */
    bool no_text;              /* words of answers were not kept */
    bool may_mask;             /* a rule may have overwritten words of answers */
};

/* Open a fixture. The caller closes it, after a failure too. */
int td_side_open(const char *dir, enum td_role role, int round, struct td_side *out,
                 struct td_error *err);
/* Are its files those that the manifest lists? */
int td_side_check(const struct td_side *s, struct td_error *err);
void td_side_close(struct td_side *s);
/* Are the words of this answer overwritten, or not kept? */
bool td_side_masks(const struct td_side *side, const struct td_exchange *x);

/* Check that two fixtures may be compared: model, sampling settings and suite of prompts must be
 * equal. A fact that one manifest lacks is not compared. TD_EINVAL names the fact and both
 * values. */
int td_align_check(const cJSON *base_manifest, const char *base_name, const cJSON *other_manifest,
                   const char *other_name, struct td_error *err);
/* Check that a replay is one of this baseline, of a fixture that the baseline was made from, or of the one that the
 * baseline is a replay of too. A recording is no replay of anything: TD_OK. TD_EINVAL names both fixtures. */
int td_align_check_origin(const cJSON *base_manifest, const char *base_name, const cJSON *replay_manifest,
                          const char *replay_name, struct td_error *err);

/* ---- exchanges ------------------------------------------------------------------------------- */

/* An exchange and where it comes from. x is borrowed from its side. masked: td_side_masks(). */
struct td_xref { const struct td_exchange *x; enum td_role role; int round; bool masked; };

/* All answers to one prompt, without warm-ups and requests that the user stopped. Each list is ordered by (round, phase, repeat). */
struct td_prompt_group {
    const char *prompt_id, *category;
    struct td_xref *by_role[TD_N_ROLES]; /* [n[role]] */
    size_t n[TD_N_ROLES];
};

#define TD_ALIGN_WORK ((uint64_t)1 << 33) /* 100 prompts with 50 answers of 2,000 tokens on both sides are a quarter */

struct td_groups {
    struct td_prompt_group *group;  /* in the order in which the baseline was asked, then the
                                       rest */
    size_t n;
    struct td_xref *xrefs;          /* the memory of all lists */
    bool candidate_reached;         /* some request of TD_NEW, warm-ups included, could connect */
};

/* Group the exchanges of all sides by prompt.
 *   sides : [n], borrowed as long as the groups live
 * TD_OK, TD_ENOMEM; TD_ELIMIT: comparing them takes more than TD_ALIGN_WORK pairs of tokens. */
int td_align_exchanges(const struct td_side *sides, size_t n, struct td_groups *out,
                       struct td_error *err);
/* How many rounds of live servers the lanes of answers see. The rounds beyond serve timings: gate adds some where times vary, and
 * an answer's text must not depend on that. */
#define TD_ANSWER_ROUNDS 3
/* The same groups with the answers of those rounds. Borrows the lists of g. TD_OK or TD_ENOMEM. */
int td_groups_of_first_rounds(const struct td_groups *g, struct td_groups *out, struct td_error *err);
void td_groups_release(struct td_groups *g);

/* The baseline's exchange that x is compared with: of the same repeat and phase, else of the same
 * repeat, else the first. NULL: the baseline has no answer to this prompt. */
const struct td_exchange *td_groups_counterpart(const struct td_prompt_group *g,
                                                const struct td_exchange *x);

#endif
