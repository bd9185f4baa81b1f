/* ops_accepted.c - are the findings of lane ops those of an acceptance?
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/ops_accepted.h"

#include <math.h>
#include <stdio.h>

#include "common/fisher.h"
#include "gate/biases.h"
#include "gate/findings.h"
#include "gate/places.h"

#define CHANCE 1e-4 /* less likely is no chance */
#define OPS_MAX 1e7 /* of a file that somebody wrote */

struct both { const cJSON *report, *now, *was, *places; };

static const cJSON *finding_of(const cJSON *findings, const char *group, const char *what)
{
    char name[500];

    snprintf(name, sizeof name, "%s%s", group, what);
    return td_json_get(findings, name);
}

static bool was_mostly(const struct both *b, const char *group, const char *what)
{
    return td_json_num(finding_of(b->was, group, what), 0) >= 0.5;
}

/* Did results of most bad ops of this kernel differ so far between runs, when it was accepted, that their worst
 * elements are others each time? Those of a kernel that varies in last bits are not. */
static bool was_unstable(const struct both *b, const cJSON *group)
{
    char name[200];

    td_finding_far_name(group, name, sizeof name);
    return was_mostly(b, name, "");
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* Of this many ops so many are bad. How likely is it that n of them hold as few bad ones as k, or as many? */
static double likelihood(double all, double bad, double n, double k, bool many)
{
    return (many ? td_fisher_as_many : td_fisher_as_few)((size_t)all, (size_t)bad, (size_t)n, (size_t)k);
}

static double number_of(const cJSON *findings, const char *group, const char *share, double ops)
{
    return round(ops * fmin(fmax(td_json_num(finding_of(findings, group, share), 0), 0), 1));
}

/* The ops of a group that were judged. A file may say anything; no recording has more than OPS_MAX. */
static double judged_of(const cJSON *group)
{
    return fmin(fmax(td_json_get_num(group, "judged", 0), 0), OPS_MAX);
}

/* Which share of a group is bad may be chance: in a sample of it, and where results do not repeat, for then an
 * op may be bad in one run and right in the next. k1, k2: bad ops then and now. */
static bool is_chance(const struct both *b, const cJSON *group, const char *name, double k1, double k2, bool many)
{
    const double n1 = judged_of(td_json_get(b->places, name)), n2 = judged_of(group);

    if (was_unstable(b, group))
        return likelihood(n1 + n2, k1 + k2, n2, k2, many) >= CHANCE;
    return n2 < n1 && likelihood(n1, k1, n2, k2, many) >= CHANCE;
}

/* Is as large a share of a group bad as then? Whether a group shows a bias, and where the limit of its ops lies,
 * differs from sample to sample. So of the ops that are bad by themselves there must not be more than of all
 * bad ones then, and of all bad ones not fewer than were bad by themselves: by half to twice, or by chance. */
static bool share_agrees(const struct both *b, const cJSON *group, const char *name)
{
    const double n1 = judged_of(td_json_get(b->places, name)), n2 = judged_of(group),
                 all1 = number_of(b->was, name, TD_FINDING_SHARE, n1), all2 = number_of(b->now, name, TD_FINDING_SHARE, n2),
                 own1 = number_of(b->was, name, TD_FINDING_OWN_SHARE, n1), own2 = number_of(b->now, name, TD_FINDING_OWN_SHARE, n2);

    if (!(all1 >= 0 && all1 <= n1 && all2 <= n2 && own1 >= 0 && own1 <= n1 && own2 <= n2 && n1 + n2 <= OPS_MAX))
        return false; /* no run wrote that */
    return (own2 * n1 <= 2 * all1 * n2 || is_chance(b, group, name, all1, own2, true)) &&
           (2 * all2 * n1 >= own1 * n2 || is_chance(b, group, name, own1, all2, false));
}

/* ---- a group --------------------------------------------------------------------------------- */

static bool is_within(const struct both *b, const char *group, const char *what)
{
    const cJSON *f = finding_of(b->now, group, what), *was = finding_of(b->was, group, what);

    return !f || (was && td_finding_within("ops", f->string, td_json_num(f, 0), td_json_num(was, 0)));
}

/* Where runs lie apart, it is chance which ops were judged by one that is right. */
static bool whole_agrees(const struct both *b, const char *name, bool known)
{
    return finding_of(b->was, name, TD_FINDING_APART) || finding_of(b->now, name, TD_FINDING_APART) ||
           (is_within(b, name, TD_FINDING_WHOLE) && (known || is_within(b, name, TD_FINDING_TYPICAL_WHOLE)));
}

static bool group_agrees(const struct both *b, const cJSON *group, const char *name)
{
    const bool unstable = was_unstable(b, group), known = td_places_tell_more(b->report, b->places, name);

    return (unstable || is_within(b, name, "")) && (unstable || known || is_within(b, name, TD_FINDING_TYPICAL)) &&
           whole_agrees(b, name, known) && share_agrees(b, group, name);
}

/* ---- what has gone --------------------------------------------------------------------------- */

/* Were bad ops of this group in some way, half or more of them, and none is now? */
static bool way_is_gone(const struct both *b, const char *name)
{
    static const char *const WAYS[] = {TD_FINDING_NAN, TD_FINDING_INF};
    size_t i;

    for (i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        if (td_json_get(b->now, name) && was_mostly(b, name, WAYS[i]) && !finding_of(b->now, name, WAYS[i]))
            return true;
    return false;
}

/* Did a bad op of this group run more than once? */
static bool ran_again(const struct both *b, const cJSON *group)
{
    const cJSON *op;

    cJSON_ArrayForEach(op, td_json_get(td_json_get(b->report, "ops"), "not_ok"))
        if (td_finding_is_bad_op_of(op, group) && td_json_get_i64(td_json_get(op, "candidate"), "repeats", 1) > 1)
            return true;
    return false;
}

/* Do the results of a kernel repeat, of whose bad ops half or more had results far apart? */
static bool repeats_now(const struct both *b, const cJSON *group)
{
    char name[160];

    td_finding_unstable_name(group, name, sizeof name);
    return was_unstable(b, group) && !td_json_get(b->now, name) && ran_again(b, group);
}

/* ---- all ------------------------------------------------------------------------------------- */

bool td_ops_are_accepted(const cJSON *report, const cJSON *now, const cJSON *accepted)
{
    const struct both b = {report, now, td_json_get(accepted, "findings"), td_json_get(accepted, "places")};
    const cJSON *group, *f;
    char name[400];

    if (!b.places || !td_places_agree(report, b.places) || !td_biases_agree(report, td_json_get(accepted, "biases")))
        return false;
    cJSON_ArrayForEach(f, now)
        if (!td_json_get(b.was, f->string) && !td_finding_depends_on_runs(f->string))
            return false;
    cJSON_ArrayForEach(group, td_json_get(td_json_get(report, "ops"), "groups")) {
        td_finding_group_name(group, name, sizeof name);
        if (td_json_get_num(group, "judged", 0) > 0 &&
            (!group_agrees(&b, group, name) || way_is_gone(&b, name) || repeats_now(&b, group)))
            return false;
    }
    return true;
}
