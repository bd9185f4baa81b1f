/* biases.c - biases of an accepted run, and whether those of another one are the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/biases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static cJSON *find_same(cJSON *list, const cJSON *found)
{
    cJSON *one;

    cJSON_ArrayForEach(one, list)
        if (same_text(one, found, "kind") && same_text(one, found, "dtype") && same_text(one, found, "of") &&
            same_text(one, found, "slice") && td_json_get_i64(one, "sign", 0) == sign_of(found))
            return one;
    return NULL;
}

static double judged_of(const cJSON *report)
{
    return td_json_get_num(td_json_get(report, "ops"), "judged", 0);
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
    cJSON_AddItemToArray(list, one);
    return one;
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
            cJSON_ReplaceItemInObjectCaseSensitive(one, "least", td_json_new_num(size));
        if (size > td_json_get_num(one, "most", INFINITY))
            cJSON_ReplaceItemInObjectCaseSensitive(one, "most", td_json_new_num(size));
    }
    return out;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Are all elements of one slice in the other? td_slice_words() wrote both. */
static bool holds(const char *whole, const char *part)
{
    int mod, rest, part_mod, part_rest;

    if (strcmp(whole, "all elements") == 0 || strcmp(whole, part) == 0)
        return true;
    if ((sscanf(whole, "columns = %9d mod %9d", &rest, &mod) != 2 ||
         sscanf(part, "columns = %9d mod %9d", &part_rest, &part_mod) != 2) &&
        (sscanf(whole, "rows = %9d mod %9d", &rest, &mod) != 2 ||
         sscanf(part, "rows = %9d mod %9d", &part_rest, &part_mod) != 2))
        return false;
    return mod > 0 && part_mod % mod == 0 && part_rest % mod == rest;
}

static bool is_like(const cJSON *found, const cJSON *accepted)
{
    const double size = td_json_get_num(found, "new_size", INFINITY), room = is_coarseness(found) ? 4 : 2;

    if (!same_text(found, accepted, "kind") || !same_text(found, accepted, "dtype") ||
        !(room * size >= td_json_get_num(accepted, "least", INFINITY)) ||
        !(size <= room * td_json_get_num(accepted, "most", 0)))
        return false;
    return is_coarseness(found) ||
           (same_text(found, accepted, "of") && td_json_get_i64(accepted, "sign", 0) == sign_of(found) &&
            holds(td_json_get_str(accepted, "slice", ""), td_json_get_str(found, "slice", "?")));
}

/* Has an accepted bias vanished, so that what is coarse now is another fault? A run that judges fewer ops may
 * not show it. */
static bool is_gone(const cJSON *report, const cJSON *accepted)
{
    const cJSON *found;

    if (is_coarseness(accepted) || judged_of(report) < td_json_get_num(accepted, "judged", 0))
        return false;
    cJSON_ArrayForEach(found, found_in(report))
        if (same_text(found, accepted, "kind") && same_text(found, accepted, "dtype") &&
            same_text(found, accepted, "of") && td_json_get_i64(accepted, "sign", 0) == sign_of(found))
            return false;
    return true;
}

bool td_biases_agree(const cJSON *report, const cJSON *accepted)
{
    const cJSON *found, *one;

    cJSON_ArrayForEach(one, accepted)
        if (is_gone(report, one))
            return false;
    cJSON_ArrayForEach(found, found_in(report)) {
        bool known = false;

        cJSON_ArrayForEach(one, accepted)
            known = known || is_like(found, one);
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
