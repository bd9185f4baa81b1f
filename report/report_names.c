/* report_names.c - the shortest distinct ends of the paths of several fixtures.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/report_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

#define NAME_MAX_BYTES 4200 /* a path, and a number behind it */

struct names { char **path, **name; size_t n; };

/* A copy of the path without slashes at its end. */
static char *copy_path(const char *path)
{
    char *copy = strndup(path, NAME_MAX_BYTES - 100);
    size_t len = copy ? strlen(copy) : 0;

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    return copy;
}

/* The path of the baseline's fixture. */
static const char *path_of(const cJSON *report)
{
    const cJSON *fixture = cJSON_GetArrayItem(td_json_get(report, "fixtures"), 0);
    const char *name = td_json_get_str(td_json_get(report, "names"), "old", "no fixture");

    return td_json_get_str(fixture, "dir", name);
}

/* The last `parts` parts of a path; the path itself when it has no more. */
static const char *end_of(const char *path, int parts)
{
    const char *p = strchr(path, '\0');

    while (p > path && (p[-1] != '/' || --parts > 0))
        p--;
    return p;
}

static const char *distinct_end(const struct names *s, size_t i)
{
    const char *end;
    int parts = 1;
    bool alone;
    size_t j;

    do {
        end = end_of(s->path[i], parts);
        for (j = 0, alone = true; j < s->n && alone; j++)
            alone = j == i || strcmp(end_of(s->path[j], parts), end) != 0;
        parts++;
    } while (!alone && end > s->path[i]);
    return end;
}

static bool is_mark(char c)
{
    return ispunct((unsigned char)c) || isspace((unsigned char)c);
}

/* Are they equal but for punctuation? A class name of JUnit keeps no more of them. */
static bool look_alike(const char *a, const char *b)
{
    while (*a && (*a == *b || (is_mark(*a) && is_mark(*b))))
        a++, b++;
    return !*a && !*b;
}

static bool is_taken(const struct names *s, size_t before, const char *name)
{
    size_t i;

    for (i = 0; i < before; i++)
        if (look_alike(name, s->name[i]))
            return true;
    return false;
}

/* Choose the name of report i; those before it have theirs. */
static char *choose(const struct names *s, size_t i)
{
    const char *end = distinct_end(s, i);
    char name[NAME_MAX_BYTES];
    size_t k;

    snprintf(name, sizeof name, "%s", end);
    for (k = 2; k < s->n + 2 && is_taken(s, i, name); k++)
        snprintf(name, sizeof name, "%s-%zu", end, k);
    return strdup(name);
}

static void release(struct names *s)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        free(s->path ? s->path[i] : NULL);
        free(s->name ? s->name[i] : NULL);
    }
    free(s->path);
    free(s->name);
}

static int fill(struct names *s, const char *const *paths, size_t n)
{
    size_t i;

    s->n = n;
    s->path = calloc(n + 1, sizeof *s->path);
    s->name = calloc(n + 1, sizeof *s->name);
    if (!s->path || !s->name)
        return TD_ENOMEM;
    for (i = 0; i < n; i++)
        if (!(s->path[i] = copy_path(paths[i])))
            return TD_ENOMEM;
    for (i = 0; i < n; i++)
        if (!(s->name[i] = choose(s, i)))
            return TD_ENOMEM;
    return TD_OK;
}

char **td_report_names_choose(const char *const *paths, size_t n)
{
    struct names s = {0};
    char **out = NULL;

    if (!fill(&s, paths, n)) {
        out = s.name;
        s.name = NULL;
    }
    release(&s);
    return out;
}

/* Name the report, and its old side, which has the name of its folder alone so far. */
static int name_report(cJSON *r, const char *name)
{
    cJSON *names = cJSON_GetObjectItemCaseSensitive(r, "names");

    cJSON_DeleteItemFromObjectCaseSensitive(r, "name");
    if (!cJSON_AddStringToObject(r, "name", name))
        return TD_ENOMEM;
    if (cJSON_HasObjectItem(names, "old"))
        cJSON_ReplaceItemInObjectCaseSensitive(names, "old", cJSON_CreateString(name));
    return TD_OK;
}

int td_report_names_set(cJSON *reports, struct td_error *err)
{
    const size_t n = (size_t)cJSON_GetArraySize(reports);
    const char **paths = calloc(n + 1, sizeof *paths);
    char **names = NULL;
    int rc = TD_OK;
    cJSON *r;
    size_t i = 0;

    cJSON_ArrayForEach(r, reports)
        if (paths)
            paths[i++] = path_of(r);
    if (paths)
        names = td_report_names_choose(paths, n);
    i = 0;
    cJSON_ArrayForEach(r, reports)
        if (names && !rc)
            rc = name_report(r, names[i++]);
    rc = names ? rc : TD_ENOMEM;
    for (i = 0; names && i < n; i++)
        free(names[i]);
    free(names);
    free(paths);
    return rc ? td_fail(err, rc, "out of memory for the names of the fixtures") : TD_OK;
}
