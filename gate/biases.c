/* biases.c - biases of an accepted run, and whether those of another one are the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/biases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gate/findings.h"

static const cJSON *found_in(const cJSON *report)
{
    return td_json_get(td_json_get(td_json_get(report, "ops"), "bias"), "found");
}

static bool same_text(const cJSON *a, const cJSON *b, const char *key)
{
    return strcmp(td_json_get_str(a, key, "?"), td_json_get_str(b, key, "?")) == 0;
}

static bool is_coarseness(const cJSON *bias)
{
    return strcmp(td_json_get_str(bias, "of", ""), "coarseness") == 0;
}

static int sign_of(const cJSON *found)
{
    return td_json_get_num(found, "estimate", 0) < 0 ? -1 : 1;
}

/* ---- accepting ------------------------------------------------------------------------------- */

static double judged_of(const cJSON *report)
{
    return td_json_get_num(td_json_get(report, "ops"), "judged", 0);
}

static cJSON *find_same(cJSON *list, const cJSON *found)
{
    cJSON *one;

    cJSON_ArrayForEach(one, list)
        if (same_text(one, found, "kind") && same_text(one, found, "dtype") && same_text(one, found, "of") &&
            same_text(one, found, "slice") && td_json_get_i64(one, "sign", 0) == sign_of(found))
            return one;
    return NULL;
}

static void set_num(cJSON *obj, const char *key, double value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(obj, key);
    cJSON_AddItemToObject(obj, key, td_json_new_num(value));
}

static cJSON *add_bias(cJSON *list, const cJSON *found, double judged)
{
    static const char *const WORDS[] = {"kind", "dtype", "of", "slice"};
    cJSON *one = cJSON_CreateObject();
    size_t i;

    for (i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        cJSON_AddStringToObject(one, WORDS[i], td_json_get_str(found, WORDS[i], "?"));
    cJSON_AddNumberToObject(one, "sign", sign_of(found));
    cJSON_AddNumberToObject(one, "judged", judged);
    cJSON_AddItemToObject(one, "least", td_json_new_num(INFINITY));
    cJSON_AddItemToObject(one, "most", td_json_new_num(0));
    cJSON_AddNumberToObject(one, "clear", 0);
    cJSON_AddItemToArray(list, one);
    return one;
}

/* How wide the interval of a bias is, as a share of it. */
static double width_of(const cJSON *found)
{
    return (td_json_get_num(found, "high", INFINITY) - td_json_get_num(found, "low", -INFINITY)) /
           fabs(td_json_get_num(found, "estimate", 0));
}

/* Another run of the same ops finds this bias as well: its interval reaches half way to none at most, and it is
 * twice as large as what counts. */
static bool is_clear(const cJSON *report, const cJSON *found)
{
    const double counts = td_json_get_num(td_json_get(td_json_get(report, "policy"), "numerics"), "bias", 0.25);

    return !is_coarseness(found) && width_of(found) <= 1 &&
           td_json_get_num(found, "new_size", 0) - td_json_get_num(found, "old_size", 0) >= 2 * counts;
}

/* How many ops of its group show it. An interval narrows with the square root of the ops; with few of them it is
 * wider than that, for their spread is not known well: hence twice the width, and at least 12. */
static double enough_of(const cJSON *found)
{
    const double ops = td_json_get_num(found, "ops", 0), per_block = ops / fmax(1, td_json_get_num(found, "blocks", 1)),
                 width = 2 * width_of(found);

    return ceil(fmax(12 * per_block, ops * width * width));
}

static void note_clear(const cJSON *report, const cJSON *found, cJSON *one)
{
    const double enough = enough_of(found);
    char group[400];

    if (!is_clear(report, found))
        return;
    set_num(one, "clear", td_json_get_num(one, "clear", 0) + 1);
    if (!*td_json_get_str(found, "m_class", "") || *td_json_get_str(found, "layer", "") ||
        enough >= td_json_get_num(one, "enough", INFINITY))
        return;
    td_finding_group_name(found, group, sizeof group);
    set_num(one, "enough", enough);
    cJSON_DeleteItemFromObjectCaseSensitive(one, "group");
    cJSON_AddStringToObject(one, "group", group);
}

cJSON *td_biases_of(const cJSON *report)
{
    cJSON *out = cJSON_CreateArray(), *one;
    const cJSON *found;

    cJSON_ArrayForEach(found, found_in(report)) {
        const double size = td_json_get_num(found, "new_size", INFINITY);

        one = find_same(out, found);
        if (!one)
            one = add_bias(out, found, judged_of(report));
        if (size < td_json_get_num(one, "least", 0))
            set_num(one, "least", size);
        if (size > td_json_get_num(one, "most", INFINITY))
            set_num(one, "most", size);
        note_clear(report, found, one);
    }
    return out;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* How large is the last tile that a slice is? "the last column": 1, "the last tile of 8 columns": 8; 0: it is none of those. *of: 'c', 'r'. */
static int last_tile(const char *slice, char *of)
{
    char what[9] = "";
    int tile = 1;

    if (sscanf(slice, "the last tile of %9d %8s", &tile, what) != 2 && (tile = 1, sscanf(slice, "the last %8s", what)) != 1)
        return 0;
    *of = *what;
    return (*of == 'c' || *of == 'r') && tile > 0 ? tile : 0;
}

/* Are both last tiles of columns, or both of rows? Then *of_a and *of_b are their sizes. */
static bool are_last_tiles(const char *a, const char *b, int *of_a, int *of_b)
{
    char a_of = 0, b_of = 0;

    *of_a = last_tile(a, &a_of);
    *of_b = last_tile(b, &b_of);
    return *of_a && *of_b && a_of == b_of;
}

/* Are all elements of one slice in the other? td_slice_words() wrote both. */
static bool holds(const char *whole, const char *part)
{
    int mod, rest, part_mod, part_rest;

    if (strcmp(whole, "all elements") == 0 || strcmp(whole, part) == 0)
        return true;
    if (are_last_tiles(whole, part, &mod, &part_mod))
        return part_mod <= mod;
    if ((sscanf(whole, "columns = %9d mod %9d", &rest, &mod) != 2 ||
         sscanf(part, "columns = %9d mod %9d", &part_rest, &part_mod) != 2) &&
        (sscanf(whole, "rows = %9d mod %9d", &rest, &mod) != 2 ||
         sscanf(part, "rows = %9d mod %9d", &part_rest, &part_mod) != 2))
        return false;
    return mod > 0 && part_mod % mod == 0 && part_rest % mod == rest;
}

/* Does what is found show that the accepted slice is still biased? A last tile is named by that size of tiles which shows it most
 * clearly, so any size does. */
static bool shows(const char *found, const char *accepted)
{
    int of_found, of_accepted;

    return holds(found, accepted) || are_last_tiles(found, accepted, &of_found, &of_accepted);
}

/* Few ops may show errors that are coarse as a faint bias of some slice. */
static bool is_like(const cJSON *report, const cJSON *found, const cJSON *accepted)
{
    const bool coarse = is_coarseness(found) || (!is_clear(report, found) &&
                                                 judged_of(report) < td_json_get_num(accepted, "judged", 0));
    const double size = td_json_get_num(found, "new_size", INFINITY), room = coarse ? 4 : 2;

    if (!same_text(found, accepted, "kind") || !same_text(found, accepted, "dtype") ||
        !(room * size >= td_json_get_num(accepted, "least", INFINITY)) ||
        !(size <= room * td_json_get_num(accepted, "most", 0)))
        return false;
    return coarse ||
           (same_text(found, accepted, "of") && td_json_get_i64(accepted, "sign", 0) == sign_of(found) &&
            holds(td_json_get_str(accepted, "slice", ""), td_json_get_str(found, "slice", "?")));
}

/* Does this run judge ops enough to show an accepted bias? */
static bool must_show(const cJSON *report, const cJSON *accepted)
{
    const cJSON *group;
    char name[400];

    if (judged_of(report) >= td_json_get_num(accepted, "judged", 0))
        return true;
    cJSON_ArrayForEach(group, td_json_get(td_json_get(report, "ops"), "groups")) {
        td_finding_group_name(group, name, sizeof name);
        if (strcmp(name, td_json_get_str(accepted, "group", "")) == 0)
            return td_json_get_num(group, "judged", 0) >= td_json_get_num(accepted, "enough", INFINITY);
    }
    return false;
}

/* Is it the one that most groups of its kernel showed clearly? Others may show by chance. */
static bool is_main(const cJSON *list, const cJSON *accepted)
{
    const double clear = td_json_get_num(accepted, "clear", 0);
    const cJSON *one;

    cJSON_ArrayForEach(one, list)
        if (same_text(one, accepted, "kind") && same_text(one, accepted, "dtype") && td_json_get_num(one, "clear", 0) > clear)
            return false;
    return clear > 0;
}

/* Has an accepted bias vanished, so that what is found now is another fault? A smaller slice is another one. */
static bool is_gone(const cJSON *report, const cJSON *list, const cJSON *accepted)
{
    const cJSON *found;

    if (!is_main(list, accepted) || !must_show(report, accepted))
        return false;
    cJSON_ArrayForEach(found, found_in(report))
        if (same_text(found, accepted, "kind") && same_text(found, accepted, "dtype") &&
            same_text(found, accepted, "of") && td_json_get_i64(accepted, "sign", 0) == sign_of(found) &&
            shows(td_json_get_str(found, "slice", ""), td_json_get_str(accepted, "slice", "?")))
            return false;
    return true;
}

bool td_biases_agree(const cJSON *report, const cJSON *accepted)
{
    const cJSON *found, *one;

    cJSON_ArrayForEach(one, accepted)
        if (is_gone(report, accepted, one))
            return false;
    cJSON_ArrayForEach(found, found_in(report)) {
        bool known = false;

        cJSON_ArrayForEach(one, accepted)
            known = known || is_like(report, found, one);
        if (!known)
            return false;
    }
    return true;
}

bool td_biases_say(const cJSON *report, const char *text)
{
    static const char MORE[] = " of ops are biased or coarser"; /* "3 more groups" */
    const size_t n = strlen(text);
    const cJSON *found;

    if (n > strlen(MORE) && strcmp(text + n - strlen(MORE), MORE) == 0)
        return true;
    cJSON_ArrayForEach(found, found_in(report)) {
        const char *words = td_json_get_str(found, "text", "");

        if (*words && strncmp(text, words, strlen(words)) == 0 && strncmp(text + strlen(words), " (", 2) == 0)
            return true;
    }
    return false;
}
