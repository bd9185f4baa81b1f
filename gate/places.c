/* places.c - where in their matrices the bad ops are worst, and by how much.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/findings.h"

enum { OF_A_GROUP = 8, ENOUGH = 4 };

struct place {
    int64_t row, column;
    double error;
    int64_t nan, inf; /* elements */
};

/* The place of a bad op. False: it has none that would be found again. */
static bool place_of(const cJSON *op, struct place *out)
{
    const cJSON *c = td_json_get(op, "candidate");

    out->row = td_json_get_i64(c, "row_at", -1);
    out->column = td_json_get_i64(c, "col_at", -1);
    out->error = td_json_get_num(c, "score", NAN);
    out->nan = td_json_get_i64(c, "nan", 0);
    out->inf = td_json_get_i64(c, "inf", 0);
    return out->row >= 0 && out->column >= 0 && td_json_get_i64(c, "unstable", 0) == 0 &&
           !td_json_get(c, "crash") &&
           strcmp(td_json_get_str(op, "status", ""), "ok") == 0;
}

static void key_of(const cJSON *op, char out[48])
{
    snprintf(out, 48, "%.8s:%lld", td_json_get_str(op, "fixture", "?"),
             (long long)td_json_get_i64(op, "op", -1));
}

static bool is_like(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || (a <= 2 * b && b <= 2 * a);
}

/* Is this where the op was worst, as an entry says in words? */
static bool is_alike(const struct place *now, const char *words)
{
    long long row, column, nan = 0, inf = 0;
    double error;

    return sscanf(words, "row %18lld, column %18lld, error %lf, %18lld NaN, %18lld Inf", &row, &column,
                  &error, &nan, &inf) >= 3 &&
           row == now->row && column == now->column && is_like(now->error, error) &&
           is_like((double)now->nan, (double)nan) && is_like((double)now->inf, (double)inf);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static int64_t turn_of(const cJSON *op)
{
    return td_json_get_i64(op, "turn", -1);
}

/* In the order in which samples and plans take the ops of a group. A replay of an older version does not
 * tell it: in the order of the recording. */
static int by_turn(const void *a, const void *b)
{
    const cJSON *p = *(const cJSON *const *)a, *q = *(const cJSON *const *)b;
    const char *key = turn_of(p) == turn_of(q) ? "op" : "turn";
    const int64_t x = td_json_get_i64(p, key, -1), y = td_json_get_i64(q, key, -1);

    return (x > y) - (x < y);
}

static void add_place(cJSON *out, const cJSON *op)
{
    struct place p;
    char key[48], words[160];
    int n;

    if (!place_of(op, &p))
        return;
    key_of(op, key);
    n = snprintf(words, sizeof words, "row %lld, column %lld, error %.5g", (long long)p.row,
                 (long long)p.column, p.error);
    if (p.nan || p.inf)
        snprintf(words + n, sizeof words - (size_t)n, ", %lld NaN, %lld Inf", (long long)p.nan,
                 (long long)p.inf);
    cJSON_AddStringToObject(out, key, words);
}

/* The first ones that --max-ops and --time take: a smaller sample of this group that holds any bad op of
 * it holds one of these. Where their turns are not known: evenly spaced, and the last one. */
static void add_places_of_group(const cJSON *not_ok, const cJSON *group, cJSON *out)
{
    const cJSON **ops = calloc((size_t)cJSON_GetArraySize(not_ok) + 1, sizeof *ops), *op;
    struct place p;
    size_t n = 0, i, kept;

    if (!ops)
        return;
    cJSON_ArrayForEach(op, not_ok)
        if (td_finding_is_bad_op_of(op, group) && place_of(op, &p))
            ops[n++] = op;
    if (n)
        qsort(ops, n, sizeof *ops, by_turn);
    kept = n < OF_A_GROUP ? n : OF_A_GROUP;
    for (i = 1; i <= kept; i++)
        add_place(out, ops[turn_of(ops[0]) >= 0 ? i - 1 : (i * n + kept - 1) / kept - 1]);
    free(ops);
}

cJSON *td_places_of(const cJSON *report)
{
    const cJSON *ops = td_json_get(report, "ops"), *group;
    cJSON *out = cJSON_CreateObject(), *one;
    char name[400];

    if (!out)
        return NULL;
    cJSON_ArrayForEach(group, td_json_get(ops, "groups")) {
        if (td_json_get_num(group, "bad", 0) <= 0)
            continue;
        td_finding_group_name(group, name, sizeof name);
        one = cJSON_AddObjectToObject(out, name);
        cJSON_AddNumberToObject(one, "judged", td_json_get_num(group, "judged", 0));
        add_places_of_group(td_json_get(ops, "not_ok"), group, cJSON_AddObjectToObject(one, "ops"));
    }
    return out;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Ops of an entry that this run judged as well, those of them that are alike, and those that are bad again. */
struct shared { int64_t all, alike, bad; };

/* The op of this name among the bad ones of the group; NULL: it is not bad, or was not judged. */
static const cJSON *find_bad(const cJSON *not_ok, const cJSON *group, const char *wanted)
{
    const cJSON *op;
    char key[48];

    cJSON_ArrayForEach(op, not_ok) {
        key_of(op, key);
        if (strcmp(key, wanted) == 0 && td_finding_is_bad_op_of(op, group))
            return op;
    }
    return NULL;
}

/* An op that is bad no more counts against the entry, unless this run may not have judged it: a run that
 * judges as many of the group judges the same ones. */
static struct shared compare_group(const cJSON *report, const cJSON *group, const cJSON *accepted)
{
    const bool judged_again = td_json_get_num(group, "judged", 0) >= td_json_get_num(accepted, "judged", 0);
    const cJSON *not_ok = td_json_get(td_json_get(report, "ops"), "not_ok"), *was, *op;
    struct shared s = {0, 0, 0};
    struct place p;

    cJSON_ArrayForEach(was, td_json_get(accepted, "ops")) {
        op = find_bad(not_ok, group, was->string);
        s.bad += op != NULL;
        if (op && !place_of(op, &p))
            continue;
        s.all += op || judged_again;
        s.alike += op && is_alike(&p, cJSON_IsString(was) ? was->valuestring : "");
    }
    return s;
}

bool td_places_agree(const cJSON *report, const cJSON *accepted)
{
    struct shared few = {0, 0, 0}, s;
    int64_t known = 0, bad = 0; /* ops of the entry in groups that are bad now; bad again */
    const cJSON *group, *was;
    char name[400];

    cJSON_ArrayForEach(group, td_json_get(td_json_get(report, "ops"), "groups")) {
        td_finding_group_name(group, name, sizeof name);
        was = td_json_get(accepted, name);
        s = compare_group(report, group, was);
        if (s.all >= ENOUGH && 2 * s.alike < s.all)
            return false;
        known += td_json_get_num(group, "bad", 0) > 0 ? cJSON_GetArraySize(td_json_get(was, "ops")) : 0;
        bad += s.bad;
        few.all += s.all < ENOUGH ? s.all : 0;
        few.alike += s.all < ENOUGH ? s.alike : 0;
    }
    return 2 * few.alike >= few.all && (bad || !known);
}

bool td_places_tell_more(const cJSON *report, const cJSON *accepted, const char *group_name)
{
    const cJSON *group, *was = td_json_get(accepted, group_name);
    struct shared s;
    char name[400];

    cJSON_ArrayForEach(group, td_json_get(td_json_get(report, "ops"), "groups")) {
        td_finding_group_name(group, name, sizeof name);
        if (strcmp(name, group_name) != 0 ||
            !(td_json_get_num(group, "judged", 0) < td_json_get_num(was, "judged", 0)))
            continue;
        s = compare_group(report, group, was);
        return s.all > 0 && 2 * s.alike >= s.all;
    }
    return false;
}
