/* align.h - bring two sides together: fixtures that may be compared, exchanges of one prompt, ops of one origin.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_ALIGN_H
#define TD_DIFFER_ALIGN_H

#include "format/fixture.h"

/* ---- fixtures ------------------------------------------------------------------------------------------------------ */

enum td_role {
    TD_BASE,      /* the baseline: the recording */
    TD_LIVE,      /* the baseline again, replayed on its live server beside the candidate */
    TD_NEW,       /* the candidate */
    TD_CALIBRATE, /* honest builds: what difference is noise */
    TD_N_ROLES
};
const char *td_role_key(enum td_role role); /* in JSON: "baseline", "baseline-live", "candidate", "calibrate" */

#define TD_SIDE_MAX 64 /* fixtures of one role */

struct td_side {
    enum td_role role;
    int round;                 /* place among those of its role, from 0 */
    struct td_fixture *fx;
    struct td_exchange *xs;
    size_t n_xs, bad_frames;
};

/* Open and read all exchanges. */
int td_side_open(const char *dir, enum td_role role, int round, struct td_side *out, struct td_error *err);
void td_side_close(struct td_side *s);

/* May these be compared? TD_EINVAL names both values: another model, other sampling settings, another suite, another kind
 * of tokens asked for. What one side does not say is not compared. */
int td_align_check(const cJSON *base_manifest, const char *base_name, const cJSON *other_manifest, const char *other_name,
                   struct td_error *err);

/* ---- exchanges ----------------------------------------------------------------------------------------------------- */

struct td_xref { const struct td_exchange *x; enum td_role role; int round; }; /* x borrowed from its side */

/* All answers to one prompt; warm-ups are left out. Each list is ordered by (round, phase, repeat). */
struct td_prompt_group {
    const char *prompt_id, *category;
    struct td_xref *by_role[TD_N_ROLES];
    size_t n[TD_N_ROLES];
};

struct td_groups {
    struct td_prompt_group *group; size_t n; /* in the order in which the baseline asked them, then the others */
    struct td_xref *xrefs;                   /* what the lists point into */
    bool candidate_reached;                  /* a request of TD_NEW, warm-ups counted, that did not fail to connect */
};

/* sides : [n], borrowed as long as the groups live */
int td_align_exchanges(const struct td_side *sides, size_t n, struct td_groups *out, struct td_error *err);
void td_groups_release(struct td_groups *g);

/* The baseline's exchange with the same repeat and phase as x, else with the same repeat, else any; NULL: none. */
const struct td_exchange *td_groups_counterpart(const struct td_prompt_group *g, const struct td_exchange *x);

#endif
