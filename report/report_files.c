/* report_files.c - write a report as the files that were asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/fixture_folders.h"
#include "common/fs.h"
#include "common/outfile.h"
#include "common/outside_fixtures.h"
#include "report/report.h"

#define N_FORMATS 4

/* A file that may be asked for. */
struct output {
    const char *option, *path;
    int (*make)(const cJSON *report, struct td_buf *out, struct td_error *err);
};

static void list_outputs(const struct td_report_outputs *o, struct output list[N_FORMATS])
{
    const struct output all[N_FORMATS] = {{"--json", o->json, td_report_json},
                                          {"--junit", o->junit, td_report_junit},
                                          {"--markdown", o->markdown, td_report_markdown},
                                          {"--csv", o->csv, td_report_csv}};
    int i;

    for (i = 0; i < N_FORMATS; i++)
        list[i] = all[i];
}

/* The output before i that goes to the same file; NULL: there is none. */
static const struct output *same_file(const struct output list[N_FORMATS], int i)
{
    int j;

    for (j = 0; j < i; j++)
        if (list[j].path && td_outfile_same(list[j].path, list[i].path))
            return &list[j];
    return NULL;
}

int td_report_outputs_check(const struct td_report_outputs *o, struct td_error *err)
{
    struct output list[N_FORMATS];
    const struct output *other;
    int i;

    list_outputs(o, list);
    for (i = 0; i < N_FORMATS; i++) {
        if (!list[i].path)
            continue;
        if (td_outfile_check(list[i].path, err))
            return td_fail_at(err, "%s", list[i].option);
        other = same_file(list, i);
        if (other)
            return td_fail(err, TD_EINVAL,
                           "%s %s and %s %s are one file; give each report a file of its own",
                           other->option, other->path, list[i].option, list[i].path);
    }
    return TD_OK;
}

typedef bool owns_fn(const char *read, const char *file);

/* An output that may be taken out. */
struct place { const char *option, **output; };

static void list_places(struct td_report_outputs *o, struct place list[N_FORMATS])
{
    const struct place all[N_FORMATS] = {
        {"--json", &o->json}, {"--junit", &o->junit}, {"--markdown", &o->markdown}, {"--csv", &o->csv}};

    memcpy(list, all, sizeof all);
}

/* TD_EINVAL: an output is one of the files that are read. */
static int spare(struct td_report_outputs *o, const char *path, owns_fn *owns, struct td_error *err)
{
    struct place all[N_FORMATS];
    int k, rc = TD_OK;

    list_places(o, all);
    for (k = 0; k < N_FORMATS; k++) {
        const char *file = *all[k].output;

        if (!file || !owns(path, file))
            continue;
        *all[k].output = NULL;
        rc = td_fail(err, TD_EINVAL,
                     "%s %.200s would be written over %.200s, which is read; give the report a file of "
                     "its own",
                     all[k].option, file, path);
    }
    return rc;
}

int td_report_outputs_spare(struct td_report_outputs *o, const char *path, struct td_error *err)
{
    struct td_fixture_folders found = {0};
    struct td_error unread = {0, ""};
    int rc = TD_OK;
    size_t i;

    if (!path)
        return TD_OK;
    td_fixture_folders_add(&found, path, &unread); /* whoever reads it says what is wrong */
    for (i = 0; i < found.n; i++)
        if (spare(o, found.path[i], td_fixture_folder_owns, err))
            rc = TD_EINVAL;
    td_fixture_folders_release(&found);
    return rc;
}

/* Is it this file, or one that is there in this folder or below? */
static bool is_input(const char *read, const char *file)
{
    char folder[PATH_MAX], path[PATH_MAX];
    size_t n;

    if (!td_fs_is_dir(read))
        return td_outfile_same(read, file);
    if (!realpath(read, folder) || !realpath(file, path))
        return false;
    n = strlen(folder);
    return !strncmp(path, folder, n) && path[n] == '/';
}

int td_report_outputs_spare_input(struct td_report_outputs *o, const char *path, struct td_error *err)
{
    return path ? spare(o, path, is_input, err) : TD_OK;
}

int td_report_outputs_stay_outside(struct td_report_outputs *o, struct td_error *err)
{
    struct place all[N_FORMATS];
    int k, rc = TD_OK;

    list_places(o, all);
    for (k = 0; k < N_FORMATS; k++) {
        if (!td_outside_fixtures_option(all[k].option, *all[k].output, err))
            continue;
        *all[k].output = NULL;
        rc = TD_EINVAL;
    }
    return rc;
}

FILE *td_report_text_stream(const struct td_report_outputs *o)
{
    struct output list[N_FORMATS];
    int i;

    list_outputs(o, list);
    for (i = 0; i < N_FORMATS; i++)
        if (list[i].path && td_outfile_is_stdout(list[i].path))
            return stderr;
    return stdout;
}

int td_report_json(const cJSON *report, struct td_buf *out, struct td_error *err)
{
    struct td_buf plain = TD_BUF_INIT(TD_REPORT_MAX);
    struct td_jw w;

    td_jw_init(&w, &plain, true);
    td_jw_value(&w, NULL, report);
    td_clean_json(td_buf_str(&plain), plain.len, out);
    out->failed |= plain.failed;
    td_buf_release(&plain);
    return out->failed ? td_fail(err, TD_ELIMIT, "the report as JSON is too large") : TD_OK;
}

int td_report_write(const cJSON *report, const struct td_report_outputs *o, struct td_error *err)
{
    struct output list[N_FORMATS];
    int i, first = TD_OK;

    list_outputs(o, list);
    for (i = 0; i < N_FORMATS; i++) {
        struct td_buf text = TD_BUF_INIT(TD_REPORT_MAX);
        int rc;

        if (!list[i].path || same_file(list, i))
            continue;
        rc = list[i].make(report, &text, err);
        if (!rc)
            rc = td_outfile_write(list[i].path, text.data, text.len, err);
        first = first ? first : rc;
        td_buf_release(&text);
    }
    return first;
}
