/* findings.c - what a lane of a report found, thing by thing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/findings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Note a finding; of two with one name the larger figure counts. NaN is beyond all measure. */
static void add(cJSON *findings, const char *name, double figure)
{
    const cJSON *before = td_json_get(findings, name);

    if (isnan(figure))
        figure = INFINITY;
    if (before && td_json_num(before, 0) >= figure)
        return;
    cJSON_DeleteItemFromObjectCaseSensitive(findings, name);
    cJSON_AddItemToObject(findings, name, td_json_new_num(figure));
}

/* NaN is larger than all; fmax() would drop it. */
static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

/* Groups with bad ops, by the larger of their errors; an op that crashed or hung is a finding of
 * its own, as no error excuses it. */
static void find_ops(const cJSON *ops, cJSON *out)
{
    const cJSON *x;
    char name[400];

    cJSON_ArrayForEach(x, td_json_get(ops, "groups")) {
        if (td_json_get_i64(x, "bad", 0) <= 0)
            continue;
        snprintf(name, sizeof name, "%.80s %.100s %.40s %.20s", td_json_get_str(x, "kind", "?"),
                 td_json_get_str(x, "shape", "?"), td_json_get_str(x, "m_class", "?"),
                 td_json_get_str(x, "dtype", "?"));
        add(out, name, larger(td_json_get_num(x, "new_score", NAN),
                              td_json_get_num(x, "new_rms", 0)));
    }
    cJSON_ArrayForEach(x, td_json_get(ops, "not_ok")) {
        const char *status = td_json_get_str(x, "status", "ok");

        if (strcmp(status, "ok") == 0)
            continue;
        snprintf(name, sizeof name, "%.80s %.40s in %.200s", td_json_get_str(x, "kind", "?"), status,
                 td_json_get_str(x, "layer", "?"));
        add(out, name, 0);
    }
}

/* An entry for each element of a list: `word`, its prompt and one more member that tells it. */
static void find_prompts(const cJSON *list, const char *word, const char *more, cJSON *out)
{
    const cJSON *x;
    char name[400];

    cJSON_ArrayForEach(x, list) {
        const char *kind = more ? td_json_get_str(x, more, "?") : "";

        snprintf(name, sizeof name, "%s%s%.80s %.200s", word, *kind ? " " : "", kind,
                 td_json_get_str(x, "prompt_id", "?"));
        add(out, name, 0);
    }
}

/* How far damage goes: without its figures, one damage would excuse every other. */
static void find_damage(const cJSON *damage, cJSON *out)
{
    static const struct { const char *member, *name; } FIGURES[] = {
        {"clear", "prompts that fork at a clear call"},
        {"shift", "logprobs apart in equal contexts"},
        {"unsure", "own tokens less likely"}};
    const cJSON *candidate = td_json_get(damage, "candidate");
    size_t i;

    if (!td_json_get_bool(damage, "found", false))
        return;
    for (i = 0; i < sizeof FIGURES / sizeof FIGURES[0]; i++) {
        const cJSON *figure = td_json_get(candidate, FIGURES[i].member);

        if (figure && !cJSON_IsNull(figure))
            add(out, FIGURES[i].name, fabs(td_json_num(figure, NAN)));
    }
}

/* Shifts over their limits, of all answers or prompts and of single ones, and what is no number. */
static void find_scores(const cJSON *report, const cJSON *scores, cJSON *out)
{
    static const char *const COUNTS[] = {"nan", "not_finite", "failed"};
    static const struct { const char *all, *one; } PARTS[] = {{"answers", "answer"},
                                                               {"prompts", "prompt"}};
    const cJSON *limits = td_json_get(td_json_get(report, "policy"), "scores"), *text;
    char name[400];
    double shift, apart;
    size_t i;

    for (i = 0; i < 3; i++)
        if (td_json_get_i64(scores, COUNTS[i], 0) > 0)
            add(out, COUNTS[i], 0);
    apart = td_json_get_num(td_json_get(scores, "answers"), "mean_dlogprob", 0);
    if (apart > td_json_get_num(limits, "distance_max", 0))
        add(out, "logprobs apart", apart);
    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "all %s", PARTS[i].all);
        shift = td_json_get_num(td_json_get(scores, PARTS[i].all), "nll_shift", 0);
        if (fabs(shift) > td_json_get_num(limits, "nll_max", 0))
            add(out, name, fabs(shift));
        cJSON_ArrayForEach(text, td_json_get(scores, "texts")) {
            snprintf(name, sizeof name, "%s %.200s", PARTS[i].one,
                     td_json_get_str(text, "prompt_id", "?"));
            shift = td_json_get_num(td_json_get(text, PARTS[i].one), "nll_shift", 0);
            if (fabs(shift) > td_json_get_num(limits, "text_nll_max", 0))
                add(out, name, fabs(shift));
        }
    }
}

static void find_speed(const cJSON *speed, cJSON *out)
{
    const cJSON *row;
    char name[400];

    cJSON_ArrayForEach(row, td_json_get(speed, "rows")) {
        if (strcmp(td_json_get_str(row, "verdict", ""), "regressed") != 0)
            continue;
        snprintf(name, sizeof name, "%.80s %.300s", td_json_get_str(row, "metric", "?"),
                 td_json_get_str(row, "what", "?"));
        add(out, name, td_json_get_num(row, "hi", td_json_get_num(row, "slower", NAN)));
    }
}

cJSON *td_findings_of(const cJSON *report, const char *lane)
{
    const cJSON *part = td_json_get(report, lane);
    cJSON *out = cJSON_CreateObject();

    if (!out)
        return NULL;
    if (strcmp(lane, "ops") == 0)
        find_ops(part, out);
    if (strcmp(lane, "tokens") == 0) {
        find_prompts(td_json_get(part, "forks"), "fork in", NULL, out);
        find_prompts(td_json_get(part, "unlike"), "same tokens, other", "what", out);
        find_prompts(td_json_get(part, "lost"), "lost", "kind", out);
        find_damage(td_json_get(part, "damage"), out);
    }
    if (strcmp(lane, "collapse") == 0)
        find_prompts(td_json_get(part, "collapsed"), "collapsed", "kind", out);
    if (strcmp(lane, "scores") == 0)
        find_scores(report, part, out);
    if (strcmp(lane, "speed") == 0)
        find_speed(part, out);
    return out;
}

bool td_finding_within(const char *lane, double figure, double accepted)
{
    const double room = strcmp(lane, "ops") == 0 ? 2 : 1.25;

    return figure == accepted || figure <= accepted * room;
}

void td_note_skeleton(const char *text, struct td_buf *out)
{
    while (*text) {
        if (!isdigit((unsigned char)*text)) {
            td_buf_addc(out, *text++);
            continue;
        }
        td_buf_addc(out, '#');
        text += strspn(text, "0123456789.");
        if ((*text == 'e' || *text == 'E') &&
            isdigit((unsigned char)text[1 + (text[1] == '+' || text[1] == '-')]))
            text += 2 + strspn(text + 2, "0123456789");
    }
}
