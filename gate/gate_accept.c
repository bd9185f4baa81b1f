/* gate_accept.c - accepted findings in a run of gate: read the file, apply it, add to it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate_accept.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/number_words.h"
#include "gate/accept.h"
#include "gate/accept_file.h"

#define SOON_DAYS 7

int td_gate_accept_open(const struct td_gate_options *o, struct td_gate_accept *a,
                        struct td_error *err)
{
    int rc;

    memset(a, 0, sizeof *a);
    a->today = td_accept_today();
    rc = td_accept_path(o->policy, a->path, sizeof a->path, err);
    if (!rc)
        rc = td_accept_load(a->path, &a->file, err);
    if (rc || !o->accept)
        return rc;
    if (!*o->accept)
        return td_fail(err, TD_EINVAL, "--accept needs a reason: who reads it has to understand it");
    if (td_accept_parse_date(o->until, &a->until, err))
        return td_fail_at(err, "--until");
    if (a->until < a->today || a->until > a->today + TD_ACCEPT_MAX_DAYS)
        return td_fail(err, TD_EINVAL, "--until %s: give a day from today to %d days ahead",
                       o->until, TD_ACCEPT_MAX_DAYS);
    return TD_OK;
}

/* The joined verdict follows from the reports, which have changed. */
static void join_again(cJSON **report)
{
    const cJSON *list = td_json_get(*report, "reports"), *one;
    const size_t n = (size_t)cJSON_GetArraySize(list);
    cJSON **reports, *joined;
    size_t i = 0;

    if (!td_report_is_joined(*report) || !(reports = calloc(n + 1, sizeof *reports)))
        return;
    cJSON_ArrayForEach(one, list)
        reports[i++] = (cJSON *)(uintptr_t)one; /* td_report_join() copies them */
    joined = td_report_join(reports, n);
    free(reports);
    if (!joined)
        return;
    cJSON_Delete(*report);
    *report = joined;
}

static void apply(const cJSON *file, int64_t today, cJSON **report)
{
    struct td_error err = {0, ""};

    if (td_accept_apply(file, today, *report, &err))
        td_log(TD_LOG_ERROR, "gate", "%s", err.msg);
    join_again(report);
}

static void say_dates(const cJSON *report, const char *path)
{
    const cJSON *a;

    cJSON_ArrayForEach(a, td_json_get(report, "accepted")) {
        const long long left = td_json_get_i64(a, "days_left", 0);

        if (left < 0)
            td_log(TD_LOG_WARN, "gate", "what was accepted until %s (%s) counts again; remove it "
                   "from %s, or accept it anew",
                   td_json_get_str(a, "until", ""), td_json_get_str(a, "reason", ""), path);
        else if (left <= SOON_DAYS)
            td_log(TD_LOG_WARN, "gate", "what is accepted (%s) counts again in %lld day%s, after %s",
                   td_json_get_str(a, "reason", ""), left + 1, td_plural(left + 1),
                   td_json_get_str(a, "until", ""));
    }
}

/* Does a report, or one of the joined, judge only a part of the recorded ops? */
static bool leaves_ops_out(const cJSON *report)
{
    const cJSON *plan = td_json_get(report, "op_plan"), *one;

    if (td_json_get_i64(plan, "planned", 0) < td_json_get_i64(plan, "of", 0))
        return true;
    cJSON_ArrayForEach(one, td_json_get(report, "reports"))
        if (leaves_ops_out(one))
            return true;
    return false;
}

/* Accept what this run found. Nothing is written unless all of it can be accepted. */
static void add(const struct td_gate_options *o, struct td_gate_accept *a, cJSON **report)
{
    cJSON *added = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(added, "accepted");
    struct td_error err = {0, ""};
    char who[200];
    int n = td_accept_add(added, *report, o->accept, td_accept_who(who, sizeof who), a->today,
                          a->until, &err);

    if (n > 0)
        td_accept_extend(a->path, list, &err);
    if (err.code) {
        td_log(TD_LOG_ERROR, "gate", "%s", err.msg);
    } else if (!n) {
        td_log(TD_LOG_WARN, "gate", "--accept: nothing was found that had to be accepted");
    } else {
        td_log(TD_LOG_WARN, "gate", "accepted until %s by %s, in %s: commit that file", o->until,
               who, a->path);
        if (leaves_ops_out(*report))
            td_log(TD_LOG_WARN, "gate", "the plan left ops out: a larger one may find more than was accepted; "
                   "accept with --time all, or gate with --plan");
        apply(added, a->today, report);
    }
    cJSON_Delete(added);
}

void td_gate_accept_apply(const struct td_gate_options *o, struct td_gate_accept *a, cJSON **report)
{
    const cJSON *one;

    if (!*report || o->smoke)
        return;
    apply(a->file, a->today, report);
    if (!td_report_is_joined(*report))
        say_dates(*report, a->path);
    cJSON_ArrayForEach(one, td_json_get(*report, "reports"))
        say_dates(one, a->path);
    if (o->accept)
        add(o, a, report);
}

void td_gate_accept_close(struct td_gate_accept *a)
{
    cJSON_Delete(a->file);
    a->file = NULL;
}
