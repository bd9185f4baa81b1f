/* findings.c - what a lane of a report found, thing by thing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/findings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

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

/* A prompt's or a layer's name as part of a finding's: a long one is cut, and its hash stands for what is
 * missing. */
static const char *name_of(const cJSON *x, const char *key, char out[240])
{
    const char *name = td_json_get_str(x, key, "?");
    const size_t n = strlen(name);

    if (n <= 200)
        snprintf(out, 240, "%s", name);
    else
        snprintf(out, 240, "%.200s... %016llx", name, (unsigned long long)td_hash64(name, n));
    return out;
}

#define FAR " by a share of the error"

static const struct { const char *name, *count; } WAYS[] = {{TD_FINDING_NAN, "nan"}, {TD_FINDING_INF, "inf"}};

enum { N_WAYS = sizeof WAYS / sizeof *WAYS };

void td_finding_group_name(const cJSON *group, char *out, size_t n)
{
    snprintf(out, n, "%.80s %.100s %.40s %.20s", td_json_get_str(group, "kind", "?"),
             td_json_get_str(group, "shape", "?"), td_json_get_str(group, "m_class", "?"),
             td_json_get_str(group, "dtype", "?"));
}

void td_finding_unstable_name(const cJSON *group, char *out, size_t n)
{
    snprintf(out, n, "%.80s %.20s, unstable", td_json_get_str(group, "kind", "?"), td_json_get_str(group, "dtype", "?"));
}

void td_finding_far_name(const cJSON *group, char *out, size_t n)
{
    char name[160];

    td_finding_unstable_name(group, name, sizeof name);
    snprintf(out, n, "%s" FAR, name);
}

bool td_finding_is_far(double spread, double error)
{
    return spread > 0 && 4 * spread >= error;
}

static bool same_text(const cJSON *a, const cJSON *b, const char *key)
{
    return strcmp(td_json_get_str(a, key, "?"), td_json_get_str(b, key, "?")) == 0;
}

bool td_finding_is_bad_op_of(const cJSON *op, const cJSON *group)
{
    return strcmp(td_json_get_str(op, "result", ""), "bad") == 0 &&
           same_text(op, group, "kind") && same_text(op, group, "shape") &&
           same_text(op, group, "m_class");
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bool td_finding_is_apart(const cJSON *op)
{
    return strncmp(td_json_get_str(op, "why", ""), "unstable", 8) == 0;
}

static bool is_unstable(const cJSON *op)
{
    return td_json_get_i64(td_json_get(op, "candidate"), "unstable", 0) > 0 || td_finding_is_apart(op);
}

static bool is_far(const cJSON *op)
{
    const cJSON *c = td_json_get(op, "candidate");

    return td_finding_is_apart(op) || (td_json_get_i64(c, "unstable", 0) > 0 &&
           td_finding_is_far(td_json_get_num(c, "spread", NAN), td_json_get_num(c, "score", NAN)));
}

/* Is it bad because its group is biased or coarser, and for nothing else? */
static bool is_by_bias(const cJSON *op)
{
    static const char END[] = " ops of this kernel)";
    const char *why = td_json_get_str(op, "why", "");
    const size_t n = strlen(why), k = strlen(END);

    return n >= k && strcmp(why + n - k, END) == 0;
}

/* NaN is beyond all measure, and sorts last. */
static double or_infinity(double error)
{
    return isnan(error) ? INFINITY : error;
}

/* The bad ops of a group, one by one. */
struct bad_ops { double *error, *whole; size_t n, in_way[N_WAYS], unstable, far, by_bias, apart; };

/* False: out of memory. largest stands in for the error of an op that has none. */
static bool list_bad_ops(const cJSON *not_ok, const cJSON *group, double largest, struct bad_ops *b)
{
    const size_t room = (size_t)cJSON_GetArraySize(not_ok) + 1;
    const cJSON *op, *c;
    int i;

    *b = (struct bad_ops){calloc(room, sizeof *b->error), calloc(room, sizeof *b->whole), 0, {0}, 0, 0, 0, 0};
    if (!b->error || !b->whole)
        return false;
    cJSON_ArrayForEach(op, not_ok) {
        if (!td_finding_is_bad_op_of(op, group))
            continue;
        c = td_json_get(op, "candidate");
        b->error[b->n] = or_infinity(td_json_get_num(c, "score", largest));
        b->whole[b->n++] = or_infinity(td_json_get_num(c, "rel_l2", NAN));
        for (i = 0; i < N_WAYS; i++)
            b->in_way[i] += td_json_get_i64(c, WAYS[i].count, 0) > 0;
        b->unstable += is_unstable(op);
        b->far += is_far(op);
        b->by_bias += is_by_bias(op);
        b->apart += td_finding_is_apart(op);
    }
    qsort(b->error, b->n, sizeof *b->error, by_size);
    qsort(b->whole, b->n, sizeof *b->whole, by_size);
    return true;
}

static void add_of(cJSON *out, const char *group_name, const char *what, double figure)
{
    char name[500];

    snprintf(name, sizeof name, "%s%s", group_name, what);
    add(out, name, figure);
}

/* Which share of the bad ops of a kernel are such: n of these of one more group. Of all its groups together, for
 * of a small one it may be none by chance. counts: of each name, bad ops by whether they are such. */
static void find_of_kernel(const char *name, size_t n, size_t of, cJSON *counts, cJSON *out)
{
    cJSON *of_kernel;
    double all, such;

    of_kernel = cJSON_GetObjectItemCaseSensitive(counts, name);
    if (!of_kernel)
        of_kernel = cJSON_AddObjectToObject(counts, name);
    all = td_json_get_num(of_kernel, "all", 0) + (double)of;
    such = td_json_get_num(of_kernel, "such", 0) + (double)n;
    cJSON_DeleteItemFromObjectCaseSensitive(of_kernel, "all");
    cJSON_DeleteItemFromObjectCaseSensitive(of_kernel, "such");
    cJSON_AddNumberToObject(of_kernel, "all", all);
    cJSON_AddNumberToObject(of_kernel, "such", such);
    cJSON_DeleteItemFromObjectCaseSensitive(out, name);
    if (such > 0)
        add(out, name, such / all);
}

/* Results that differ between runs, and those that differ so far that the worst element is any. */
static void find_unstable(const cJSON *group, const struct bad_ops *b, cJSON *counts, cJSON *out)
{
    char name[200];

    td_finding_unstable_name(group, name, sizeof name);
    find_of_kernel(name, b->unstable, b->n, counts, out);
    td_finding_far_name(group, name, sizeof name);
    find_of_kernel(name, b->far, b->n, counts, out);
}

/* The bad ops of a group one by one: their typical errors, which a sample of the group (--max-ops) shows as well, unlike the largest;
 * in which ways beside their errors they are bad, and which share of them. Without a list of ops the largest error stands in. */
static void find_bad_ops(const cJSON *not_ok, const cJSON *group, const char *group_name, double largest, cJSON *counts, cJSON *out)
{
    const double bad = td_json_get_num(group, "bad", 0), judged = td_json_get_num(group, "judged", 0);
    struct bad_ops b;
    int i;

    if (list_bad_ops(not_ok, group, largest, &b)) { /* else td_findings_of: a lane with fewer findings than were accepted is not excused */
        add_of(out, group_name, TD_FINDING_TYPICAL, b.n ? b.error[b.n / 2] : largest);
        if (b.n) {
            add_of(out, group_name, TD_FINDING_WHOLE, b.whole[b.n - 1]);
            add_of(out, group_name, TD_FINDING_TYPICAL_WHOLE, b.whole[b.n / 2]);
        }
        if (b.apart)
            add_of(out, group_name, TD_FINDING_APART, (double)b.apart / (double)b.n);
        for (i = 0; i < N_WAYS; i++)
            if (b.in_way[i])
                add_of(out, group_name, WAYS[i].name, (double)b.in_way[i] / (double)b.n);
        add_of(out, group_name, TD_FINDING_SHARE, bad / (judged > bad ? judged : bad));
        add_of(out, group_name, TD_FINDING_OWN_SHARE, (bad - (double)b.by_bias) / (judged > bad ? judged : bad));
        find_unstable(group, &b, counts, out);
    }
    free(b.error);
    free(b.whole);
}

/* Groups with bad ops: the larger of their errors, which share of the ops is bad by itself, and in which ways.
 * An op that crashed or hung is a finding of its own, as no error excuses it. */
static void find_ops(const cJSON *ops, cJSON *out)
{
    cJSON *counts = cJSON_CreateObject();
    const cJSON *x;
    char name[400], id[240];

    cJSON_ArrayForEach(x, td_json_get(ops, "groups")) {
        const double largest = larger(td_json_get_num(x, "new_score", NAN), td_json_get_num(x, "new_rms", 0));

        if (td_json_get_num(x, "bad", 0) <= 0)
            continue;
        td_finding_group_name(x, name, sizeof name);
        add(out, name, largest);
        find_bad_ops(td_json_get(ops, "not_ok"), x, name, largest, counts, out);
    }
    cJSON_Delete(counts);
    cJSON_ArrayForEach(x, td_json_get(ops, "not_ok")) {
        const char *status = td_json_get_str(x, "status", "ok");

        if (strcmp(status, "ok") == 0)
            continue;
        snprintf(name, sizeof name, "%.80s %.40s in %s", td_json_get_str(x, "kind", "?"), status,
                 name_of(x, "layer", id));
        add(out, name, 0);
    }
}

/* An entry for `word`, a prompt and one more member that tells it; counted: with how many elements of the
 * list. Which of a prompt's answers fork may differ from run to run. */
static void find_prompts(const cJSON *list, const char *word, const char *more, bool counted, cJSON *out)
{
    const cJSON *x;
    char name[400], id[240];

    cJSON_ArrayForEach(x, list) {
        const char *kind = more ? td_json_get_str(x, more, "?") : "";

        snprintf(name, sizeof name, "%s%s%.80s %s", word, *kind ? " " : "", kind,
                 name_of(x, "prompt_id", id));
        add(out, name, counted ? td_json_get_num(out, name, 0) + 1 : 0);
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

/* The share of scorings that failed or are no numbers, and of positions that are none, in all and of each
 * prompt. One that was accepted does not excuse that all are, nor that those of another prompt are. */
static void find_unscored(const cJSON *scores, cJSON *out)
{
    static const char *const COUNTS[] = {"nan", "failed", "not_finite"};
    const double compared = td_json_get_num(td_json_get(scores, "answers"), "comparisons", 0) +
                            td_json_get_num(td_json_get(scores, "prompts"), "comparisons", 0);
    const cJSON *text;
    char name[400], id[240];
    size_t i;

    for (i = 0; i < 3; i++) {
        const double n = td_json_get_num(scores, COUNTS[i], 0),
                     all = i == 2 ? n + compared : fmax(n, td_json_get_num(scores, "recorded", 0));

        if (n > 0)
            add(out, COUNTS[i], n / all);
    }
    cJSON_ArrayForEach(text, td_json_get(scores, "unscored"))
        for (i = 0; i < 3; i++) {
            const double n = td_json_get_num(text, COUNTS[i], 0);

            snprintf(name, sizeof name, "%s in %s", COUNTS[i], name_of(text, "prompt_id", id));
            if (n > 0)
                add(out, name, n / fmax(td_json_get_num(text, "asked", 1), 1));
        }
}

/* Shifts over their limits, of all answers or prompts and of single ones, and what is no number. */
static void find_scores(const cJSON *report, const cJSON *scores, cJSON *out)
{
    static const struct { const char *all, *one; } PARTS[] = {{"answers", "answer"},
                                                               {"prompts", "prompt"}};
    const cJSON *limits = td_json_get(td_json_get(report, "policy"), "scores"), *text;
    char name[400], id[240];
    double shift, apart;
    size_t i;

    find_unscored(scores, out);
    apart = td_json_get_num(td_json_get(scores, "answers"), "mean_dlogprob", 0);
    if (apart > td_json_get_num(limits, "distance_max", 0))
        add(out, "logprobs apart", apart);
    for (i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "all %s", PARTS[i].all);
        shift = td_json_get_num(td_json_get(scores, PARTS[i].all), "nll_shift", 0);
        if (fabs(shift) > td_json_get_num(limits, "nll_max", 0))
            add(out, name, fabs(shift));
        cJSON_ArrayForEach(text, td_json_get(scores, "texts")) {
            snprintf(name, sizeof name, "%s %s", PARTS[i].one, name_of(text, "prompt_id", id));
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
        find_prompts(td_json_get(part, "forks"), "fork in", NULL, false, out);
        find_prompts(td_json_get(part, "unlike"), "same tokens, other", "what", false, out);
        find_prompts(td_json_get(part, "lost"), "lost", "kind", false, out);
        find_damage(td_json_get(part, "damage"), out);
    }
    if (strcmp(lane, "collapse") == 0)
        find_prompts(td_json_get(part, "collapsed"), "collapsed", "kind", true, out);
    if (strcmp(lane, "scores") == 0)
        find_scores(report, part, out);
    if (strcmp(lane, "speed") == 0)
        find_speed(part, out);
    return out;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);

    return n >= k && strcmp(name + n - k, end) == 0;
}

static bool is_way(const char *name)
{
    int i = 0;

    while (i < N_WAYS && !ends_with(name, WAYS[i].name))
        i++;
    return i < N_WAYS;
}

/* Does a sample show as much of it as all ops do? */
static bool is_typical(const char *name)
{
    return ends_with(name, TD_FINDING_SHARE) || ends_with(name, TD_FINDING_TYPICAL) ||
           ends_with(name, TD_FINDING_TYPICAL_WHOLE);
}

bool td_finding_within(const char *lane, const char *name, double figure, double accepted)
{
    const bool of_ops = strcmp(lane, "ops") == 0;
    const double room = of_ops ? 2 : 1.25;
    const bool less_is_the_same = strcmp(lane, "speed") == 0 || (of_ops && !is_typical(name));

    if (of_ops && is_way(name)) /* the typical error tells whether it is rare */
        return true;
    return figure == accepted ||
           (figure <= accepted * room && (less_is_the_same || figure * 2 >= accepted));
}

/* A word of the text at s, which is its singular or plural: "op", "ops"; "is", "are". One count more or
 * less is the same sentence. Returns the length of the word. */
static size_t add_word(const char *s, struct td_buf *out)
{
    static const char *const PLURALS[][2] = {{"is", "are"}, {"was", "were"}, {"has", "have"}};
    size_t i, n = 0;

    while (isalpha((unsigned char)s[n]))
        n++;
    for (i = 0; i < sizeof PLURALS / sizeof *PLURALS; i++)
        if (n == strlen(PLURALS[i][0]) && strncmp(s, PLURALS[i][0], n) == 0) {
            td_buf_adds(out, PLURALS[i][1]);
            return n;
        }
    td_buf_add(out, s, n > 1 && s[n - 1] == 's' ? n - 1 : n);
    return n;
}

void td_note_skeleton(const char *text, struct td_buf *out)
{
    while (*text) {
        if (isalpha((unsigned char)*text)) {
            text += add_word(text, out);
            continue;
        }
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

bool td_finding_depends_on_runs(const char *name)
{
    return ends_with(name, TD_FINDING_WHOLE) || ends_with(name, TD_FINDING_TYPICAL_WHOLE) || ends_with(name, TD_FINDING_APART) ||
           ends_with(name, FAR);
}
