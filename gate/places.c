/* places.c - where in their matrices the bad ops are worst, and by how much.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/findings.h"

enum { OF_A_GROUP = 8, ENOUGH = 4 };

#define UNSTABLE ", unstable"
#define RIGHT ", judged right"
#define ROOM 1.25 /* of whole outputs, and of how far runs lie apart */

struct place {
    int64_t row, column;
    double error, whole; /* of the worst element, in roundings; of all elements, as a share of the output */
    int64_t nan, inf;    /* elements */
    bool unstable, once; /* results differed between runs; nobody knows, for there was one run */
    double spread;       /* by how many roundings they differed */
    bool right;          /* the run that was judged is right; how far others lie apart is bad */
    bool far;            /* they differed so far that the worst element may be any */
};

/* The place of a bad op. False: it has none that would be found again. */
static bool place_of(const cJSON *op, struct place *out)
{
    const cJSON *c = td_json_get(op, "candidate");

    out->row = td_json_get_i64(c, "row_at", -1);
    out->column = td_json_get_i64(c, "col_at", -1);
    out->error = td_json_get_num(c, "score", NAN);
    out->whole = td_json_get_num(c, "rel_l2", NAN);
    out->nan = td_json_get_i64(c, "nan", 0);
    out->inf = td_json_get_i64(c, "inf", 0);
    out->unstable = td_json_get_i64(c, "unstable", 0) > 0;
    out->spread = td_json_get_num(c, "spread", NAN);
    out->right = td_finding_is_apart(op);
    out->far = out->right || (out->unstable && td_finding_is_far(out->spread, out->error));
    out->once = td_json_get_i64(c, "repeats", 1) < 2;
    return out->row >= 0 && out->column >= 0 && !td_json_get(c, "crash") &&
           strcmp(td_json_get_str(op, "status", ""), "ok") == 0;
}

static void key_of(const cJSON *op, char out[48])
{
    snprintf(out, 48, "%.8s:%lld", td_json_get_str(op, "fixture", "?"),
             (long long)td_json_get_i64(op, "op", -1));
}

static bool is_like(double a, double b, double room)
{
    return (isnan(a) && isnan(b)) || a == b || (a <= room * b && b <= room * a);
}

/* The place that an entry names in words. False: it is not of this form. */
static bool read_place(const cJSON *was, struct place *out)
{
    long long row, column, nan = 0, inf = 0;
    const char *by;

    *out = (struct place){0};
    if (!cJSON_IsString(was) ||
        sscanf(was->valuestring, "row %18lld, column %18lld, error %lf, whole %lf, %18lld NaN, %18lld Inf", &row, &column,
               &out->error, &out->whole, &nan, &inf) < 4)
        return false;
    out->row = row;
    out->column = column;
    out->nan = nan;
    out->inf = inf;
    by = strstr(was->valuestring, UNSTABLE);
    out->unstable = by != NULL;
    out->spread = NAN;
    if (by && sscanf(by, UNSTABLE " by %lf", &out->spread) != 1)
        out->spread = NAN;
    out->right = by && strstr(by, RIGHT);
    out->far = out->right || (out->unstable && td_finding_is_far(out->spread, out->error));
    return true;
}

static bool was_far(const cJSON *was)
{
    struct place p;

    return read_place(was, &p) && p.far;
}

/* Of what does not repeat the worst element is any. Where one of both runs was right and the other not, it is
 * the same fault if its runs lie as far apart. */
static bool is_alike_far(const struct place *now, const struct place *was)
{
    if (!(now->unstable || now->once) || (now->nan > 0) != (was->nan > 0) || (now->inf > 0) != (was->inf > 0))
        return false;
    return is_like(now->whole, was->whole, ROOM) ||
           ((now->right || was->right) && was->spread > 0 && is_like(now->spread, was->spread, ROOM));
}

/* Is this what an entry says in words of the op? */
static bool is_alike(const struct place *now, const cJSON *words)
{
    struct place was;

    if (!read_place(words, &was))
        return false;
    if (was.far)
        return is_alike_far(now, &was);
    return (was.unstable || !now->far) && was.row == now->row && was.column == now->column &&
           is_like(now->error, was.error, 2) && is_like(now->whole, was.whole, ROOM) &&
           is_like((double)now->nan, (double)was.nan, 2) && is_like((double)now->inf, (double)was.inf, 2);
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
    n = snprintf(words, sizeof words, "row %lld, column %lld, error %.5g, whole %.5g", (long long)p.row,
                 (long long)p.column, p.error, p.whole);
    if (p.nan || p.inf)
        n += snprintf(words + n, sizeof words - (size_t)n, ", %lld NaN, %lld Inf", (long long)p.nan, (long long)p.inf);
    if (p.unstable)
        snprintf(words + n, sizeof words - (size_t)n, UNSTABLE " by %.5g%s", p.spread, p.right ? RIGHT : "");
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

/* Ops of an entry that this run judged as well, and those of them that are alike. */
struct count { int64_t all, alike; };
/* steady: of results that repeated, but for last bits; shaky: of those that did not; bad: those of both that are bad again */
struct shared { struct count steady, shaky; int64_t bad; };

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

/* An op that is bad no more counts against the entry, unless it was bad by chance, or this run may not have
 * judged it: a run that judges as many of the group judges the same ones. */
static struct shared compare_group(const cJSON *report, const cJSON *group, const cJSON *accepted)
{
    const bool judged_again = td_json_get_num(group, "judged", 0) >= td_json_get_num(accepted, "judged", 0);
    const cJSON *not_ok = td_json_get(td_json_get(report, "ops"), "not_ok"), *was, *op;
    struct shared s = {{0, 0}, {0, 0}, 0};
    struct count *c;
    struct place p;

    cJSON_ArrayForEach(was, td_json_get(accepted, "ops")) {
        op = find_bad(not_ok, group, was->string);
        s.bad += op != NULL;
        if (op && !place_of(op, &p))
            continue;
        c = was_far(was) ? &s.shaky : &s.steady;
        c->all += op || (judged_again && c == &s.steady);
        c->alike += op && is_alike(&p, was);
    }
    return s;
}

/* Ops of a group's entry that will be bad again. */
static int64_t count_steady(const cJSON *accepted)
{
    const cJSON *was;
    int64_t n = 0;

    cJSON_ArrayForEach(was, td_json_get(accepted, "ops"))
        n += !was_far(was);
    return n;
}

static void add_count(struct count *sum, const struct count *c)
{
    sum->all += c->all;
    sum->alike += c->alike;
}

static bool is_half(const struct count *c)
{
    return 2 * c->alike >= c->all;
}

bool td_places_agree(const cJSON *report, const cJSON *accepted)
{
    struct count few = {0, 0}, shaky = {0, 0};
    int64_t known = 0, bad = 0; /* ops of the entry in groups that are bad now; bad again */
    const cJSON *group, *was;
    struct shared s;
    char name[400];

    cJSON_ArrayForEach(group, td_json_get(td_json_get(report, "ops"), "groups")) {
        td_finding_group_name(group, name, sizeof name);
        was = td_json_get(accepted, name);
        s = compare_group(report, group, was);
        if (s.steady.all >= ENOUGH && !is_half(&s.steady))
            return false;
        known += td_json_get_num(group, "bad", 0) > 0 ? count_steady(was) : 0;
        bad += s.bad;
        if (s.steady.all < ENOUGH)
            add_count(&few, &s.steady);
        add_count(&shaky, &s.shaky);
    }
    return is_half(&few) && is_half(&shaky) && (bad || !known);
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
        add_count(&s.steady, &s.shaky);
        return s.steady.all > 0 && is_half(&s.steady);
    }
    return false;
}
