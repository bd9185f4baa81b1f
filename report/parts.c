/* parts.c - read the parts of a report that the renderers share.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "report/report.h"

const cJSON *td_report_part(const cJSON *report, size_t i)
{
    const cJSON *all = td_json_get(report, "reports"), *one, *next;
    int gravity = -1, below;

    if (cJSON_GetArraySize(all) == 0)
        return i == 0 ? report : NULL;
    cJSON_ArrayForEach(one, all)
        gravity = td_report_gravity(one) > gravity ? td_report_gravity(one) : gravity;
    for (; gravity >= 0; gravity = below) {
        below = -1;
        cJSON_ArrayForEach(next, all) {
            const int g = td_report_gravity(next);

            if (g == gravity && i-- == 0)
                return next;
            below = g < gravity && g > below ? g : below;
        }
    }
    return NULL;
}

const char *td_report_name(const cJSON *report)
{
    const char *name = td_part_str(report, "name");

    if (!*name)
        name = td_part_str(td_json_get(report, "names"), "old");
    if (!*name)
        name = td_part_str(cJSON_GetArrayItem(td_json_get(report, "fixtures"), 0), "dir");
    return *name ? name : "no fixture";
}

const char *td_part_str(const cJSON *part, const char *key)
{
    return td_json_get_str(part, key, "");
}

const char *td_part_text(const cJSON *item, const char *key)
{
    if (key)
        return td_part_str(item, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

const char *td_part_key(const cJSON *part)
{
    return part->string ? part->string : "";
}

/* Write a figure with this many digits, when it is no integer. */
static const char *write_number(const cJSON *v, int digits, char out[TD_FIGURE_MAX])
{
    double d = td_json_num(v, NAN);

    out[0] = '\0';
    if (cJSON_IsString(v) && isnan(d) && !strstr(v->valuestring, "NaN"))
        return out;
    if (!cJSON_IsNumber(v) && !cJSON_IsString(v))
        return out;
    if (isnan(d) || isinf(d))
        snprintf(out, TD_FIGURE_MAX, isnan(d) ? "NaN" : d > 0 ? "Infinity" : "-Infinity");
    else if (d == floor(d) && fabs(d) < 1e15)
        snprintf(out, TD_FIGURE_MAX, "%.0f", d);
    else
        snprintf(out, TD_FIGURE_MAX, "%.*g", digits, d);
    return out;
}

const char *td_part_figure(const cJSON *part, const char *key, char out[TD_FIGURE_MAX])
{
    return write_number(td_json_get(part, key), 3, out);
}

const char *td_part_number(const cJSON *part, const char *key, char out[TD_FIGURE_MAX])
{
    return write_number(td_json_get(part, key), 10, out);
}

const char *td_part_percent(const cJSON *part, const char *key, char out[TD_FIGURE_MAX])
{
    double v = td_json_get_num(part, key, NAN);

    out[0] = '\0';
    if (isfinite(v))
        snprintf(out, TD_FIGURE_MAX, "%+.1f %%", v * 100);
    return out;
}

const char *td_part_group_verdict(const cJSON *group)
{
    if (td_json_get_bool(group, "accepted", false))
        return "pass";
    if (td_json_get_num(group, "bad", 0) > 0)
        return "regressed";
    if (td_json_get_num(group, "undecided", 0) + td_json_get_num(group, "broken", 0) > 0)
        return "inconclusive";
    return td_json_get_num(group, "judged", 0) > 0 ? "pass" : "not judged";
}

bool td_part_group_is_judged(const cJSON *group)
{
    return td_json_get_num(group, "judged", 0) > 0 ||
           td_json_get_num(group, "compared", 0) + td_json_get_num(group, "not_compared", 0) <= 0;
}

void td_part_add_facts(const cJSON *report, struct td_buf *words)
{
    const cJSON *answers = td_json_get(report, "answers"), *ops = td_json_get(report, "ops_equal");
    const double change = td_json_get_num(report, "speed_change", NAN);
    const size_t before = words->len;

    if (cJSON_IsObject(answers))
        td_buf_addf(words, "answers equal %lld/%lld, tokens equal %.1f %%",
                    (long long)td_json_get_i64(answers, "equal", 0),
                    (long long)td_json_get_i64(answers, "compared", 0),
                    td_json_get_num(answers, "tokens_equal", 0) * 100);
    if (cJSON_IsObject(ops))
        td_buf_addf(words, "%sops bit-equal %lld/%lld", words->len > before ? "; " : "",
                    (long long)td_json_get_i64(ops, "equal", 0),
                    (long long)td_json_get_i64(ops, "compared", 0));
    if (!isnan(change))
        td_buf_addf(words, "%sspeed: %s %+.1f %%", words->len > before ? "; " : "",
                    td_json_get_str(report, "speed_of", "time"), change * 100);
}

void td_part_add_plan(const cJSON *report, struct td_buf *words)
{
    const cJSON *plan = td_json_get(report, "op_plan"), *each = td_json_get(plan, "each"), *one;
    const int n = cJSON_GetArraySize(each);
    int i = 0;

    if (!cJSON_IsObject(plan))
        return;
    td_buf_addf(words, "plan: %lld of %lld ops", (long long)td_json_get_i64(plan, "planned", 0),
                (long long)td_json_get_i64(plan, "of", 0));
    cJSON_ArrayForEach(one, each) {
        td_buf_addf(words, "%s%s", !i ? ", each " : i + 1 < n ? ", " : " and ", one->valuestring ? one->valuestring : "?");
        i++;
    }
    td_buf_adds(words, n ? " at least once" : "");
}

void td_part_add_accepted(const cJSON *accepted, struct td_buf *words)
{
    const char *state = td_part_str(accepted, "state");

    td_buf_addf(words, "%s (by %s, until %s%s%s)", td_part_str(accepted, "reason"),
                td_json_get_str(accepted, "who", "?"), td_json_get_str(accepted, "until", "?"),
                *state ? "; " : "", state);
}

bool td_report_asked(const cJSON *report, const char *lane)
{
    return td_json_get_bool(td_json_get(td_json_get(report, "lanes"), lane), "asked", false);
}

const char *td_part_lane_reason(const cJSON *lane)
{
    const char *verdict = td_part_str(lane, "verdict"), *first = NULL;
    const cJSON *note;

    if (*td_part_str(lane, "headline"))
        return td_part_str(lane, "headline");
    cJSON_ArrayForEach(note, td_json_get(lane, "notes")) {
        if (!strcmp(td_part_str(note, "verdict"), verdict))
            return td_part_str(note, "text");
        first = first ? first : td_part_str(note, "text");
    }
    return first ? first : td_json_get_bool(lane, "asked", false) ? "" : "not asked for";
}
