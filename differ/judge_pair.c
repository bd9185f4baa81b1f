/* judge_pair.c - one comparison from the folders of its fixtures to its report.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/judge_pair.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "differ/compare.h"
#include "differ/lanes.h"
#include "differ/open_sides.h"
#include "differ/reports.h"
#include "report/report.h"

cJSON *td_judge_broken(const char *base, const struct td_error *err)
{
    cJSON *report = td_report_broken(TD_DIFFER_TOOL, td_exit_code(err->code), "%s", err->msg), *side;
    cJSON *list = cJSON_GetObjectItemCaseSensitive(report, "fixtures");

    if (!base || !list)
        return report;
    side = cJSON_CreateObject();
    cJSON_AddStringToObject(side, "role", td_role_key(TD_BASE));
    cJSON_AddStringToObject(side, "dir", base);
    cJSON_AddItemToArray(list, side);
    return report;
}

static int open_sides(struct td_comparison *c, const char *base, const char *candidate,
                      const struct td_judge_options *o, struct td_error *err)
{
    const struct { enum td_role role; const struct td_arg_list *dirs; int first; } more[] = {
        {TD_NEW, &o->more, 1}, {TD_LIVE, &o->live, 0}, {TD_CALIBRATE, &o->calibrate, 0}};
    struct td_side_place place[TD_SIDES_MAX] = {{base, TD_BASE, 0}, {candidate, TD_NEW, 0}};
    size_t i;
    int j;

    c->n_sides = 2;
    for (i = 0; i < sizeof more / sizeof more[0]; i++)
        for (j = 0; j < more[i].dirs->n; j++)
            place[c->n_sides++] = (struct td_side_place){more[i].dirs->item[j], more[i].role, more[i].first + j};
    c->side = calloc(c->n_sides, sizeof *c->side);
    if (!c->side) {
        c->n_sides = 0;
        return td_fail(err, TD_ENOMEM, "no memory");
    }
    return td_sides_open(place, c->n_sides, c->side, err);
}

cJSON *td_judge_pair(const struct td_judge_options *o, const char *base, const char *candidate)
{
    const int64_t began_ns = td_clock_mono_ns();
    struct td_error err = {0, ""};
    struct td_comparison c;
    cJSON *report = NULL;
    int rc;

    memset(&c, 0, sizeof c);
    td_lanes_init(c.lane);
    c.policy = o->policy;
    c.policy_file = o->policy_file;
    c.gate_builds = o->gate_builds;
    c.gate_servers = o->gate_servers;
    c.wanted = o->terms ? &o->wanted : NULL;
    c.dialect = o->dialect;
    rc = td_lanes_ask(c.lane, o->lanes, &err);
    if (!rc)
        rc = td_lanes_ask_for_replayed(c.lane, o->replayed, &err);
    if (!rc)
        rc = open_sides(&c, base, candidate, o, &err);
    if (!rc)
        rc = td_compare(&c, &err);
    if (!rc)
        report = td_comparison_report(&c, &err);
    td_comparison_release(&c);
    if (!report)
        report = td_judge_broken(base, &err);
    td_report_stamp(report, began_ns);
    return report;
}
