/* gate_plan.c - find the fixtures of a run, check what can be checked, make folders for the replays.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gate/gate_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fixture_folders.h"
#include "common/hidden.h"
#include "common/log.h"
#include "common/temp_folder.h"
#include "gate/run.h"
#include "report/report_names.h"

static bool name_is_taken(const struct td_gate_plan *p, const char *name)
{
    size_t i;

    for (i = 0; i < p->n; i++)
        if (strcmp(p->item[i].name, name) == 0)
            return true;
    return false;
}

/* A folder's name from the name of a fixture: "int4/model.tdz" is int4-model.tdz; "-2" behind it when
 * another fixture has this name. */
static void set_name(const struct td_gate_plan *p, const char *name, char *out, size_t n)
{
    char *shown = td_hidden_copy(name, strlen(name)), plain[201];
    int i;

    name = shown ? shown : "";
    while (*name == '/' || *name == '.')
        name++;
    snprintf(plain, sizeof plain, "%.200s", *name ? name : "fixture");
    free(shown);
    for (i = 0; plain[i]; i++)
        if (plain[i] == '/')
            plain[i] = '-';
    snprintf(out, n, "%s", plain);
    for (i = 2; name_is_taken(p, out); i++)
        snprintf(out, n, "%s-%d", plain, i);
}

/* What the search left out, or found and is not what it seems. */
static void say_found(const struct td_gate_options *o, const struct td_fixture_folders *found)
{
    int k;

    td_fixture_folders_say(found, "gate");
    for (k = 0; k < o->n_operands; k++)
        if (td_fixture_folder_is_replay(o->operand[k]))
            td_log(TD_LOG_WARN, "gate", "%s is a replay, no recording: what its build computed is the "
                   "baseline now", o->operand[k]);
}

/* An item for each fixture that was found. */
static int add_items(struct td_gate_plan *p, const struct td_fixture_folders *found,
                     struct td_error *err)
{
    char **names = td_report_names_choose((const char *const *)found->path, found->n);
    int rc = TD_OK;
    size_t i;

    p->item = calloc(found->n + 1, sizeof *p->item);
    if (!names || !p->item)
        rc = td_fail(err, TD_ENOMEM, "out of memory for %zu fixtures", found->n);
    for (i = 0; i < found->n && !rc; i++) {
        struct td_gate_item *it = &p->item[p->n];

        if (snprintf(it->fixture, sizeof it->fixture, "%s", found->path[i]) >=
            (int)sizeof it->fixture)
            rc = td_fail(err, TD_ELIMIT, "%.60s...: the path is too long", found->path[i]);
        set_name(p, names[i], it->name, sizeof it->name);
        p->n++;
    }
    for (i = 0; names && i < found->n; i++)
        free(names[i]);
    free(names);
    return rc;
}

static int list_items(const struct td_gate_options *o, struct td_gate_plan *p, struct td_error *err)
{
    struct td_fixture_folders found = {.without_replays = true};
    int rc = TD_OK, k;

    for (k = 0; k < o->n_operands && !rc; k++)
        rc = td_fixture_folders_add(&found, o->operand[k], err);
    say_found(o, &found);
    if (!rc)
        rc = add_items(p, &found, err);
    if (!rc && o->smoke)
        snprintf(p->item[p->n++].name, sizeof p->item->name, "smoke");
    td_fixture_folders_release(&found);
    return rc;
}

/* Have differ check --policy and --lanes, so that a typing error is found before the replay. */
static int check_with_differ(struct td_gate_plan *p, struct td_error *err)
{
    const struct td_gate_options *o = p->opt;
    struct td_command c;
    struct td_outcome out;

    if (!o->policy && !o->lanes && !o->metrics_as && !o->goodput && !o->percentiles)
        return TD_OK;
    if (td_command_init(&c, "differ", err))
        return err->code;
    td_command_add(&c, "--check-options");
    td_command_opt(&c, "--policy", o->policy);
    td_command_opt(&c, "--lanes", o->lanes);
    td_command_opt(&c, "--metrics-as", o->metrics_as);
    td_command_opt(&c, "--goodput", o->goodput);
    td_command_opt(&c, "--percentiles", o->percentiles);
    if (td_run(&c, TD_RUN_DROP, &out, err))
        return err->code;
    if (out.exited && out.code == TD_EXIT_OK)
        return TD_OK;
    return td_fail(err, out.exited && out.code == TD_EXIT_USAGE ? TD_EINVAL : TD_EIO, "%s",
                   out.cause);
}

static int check_calibrate(const struct td_gate_options *o, struct td_error *err)
{
    int i;

    for (i = 0; i < o->calibrate.n; i++)
        if (!td_fs_exists(o->calibrate.item[i]))
            return td_fail(err, TD_EINVAL,
                           "--calibrate %s: no such fixture; {gate} --keep DIR keeps a replay",
                           o->calibrate.item[i]);
    return TD_OK;
}

/* ---- folders --------------------------------------------------------------------------------- */

static int make_root(struct td_gate_plan *p, struct td_error *err)
{
    const char *wanted = p->opt->keep ? p->opt->keep : p->opt->artifacts;

    if (wanted) {
        if (td_fs_exists(wanted))
            return td_fail(err, TD_EEXIST, "--%s %s: exists already; name a new folder",
                           p->opt->keep ? "keep" : "artifacts", wanted);
        if (snprintf(p->folder, sizeof p->folder, "%s", wanted) >= (int)sizeof p->folder)
            return td_fail(err, TD_ELIMIT, "%.60s...: the path is too long", wanted);
        if (td_fs_mkdirs(wanted, err))
            return err->code;
        return p->opt->artifacts ? td_fixture_folder_mark_artifacts(wanted, err) : TD_OK;
    }
    p->temporary = !td_temp_folder_make(TD_TEMP_GATE, p->folder, sizeof p->folder, &p->lock);
    return p->temporary ? TD_OK
                        : td_fail(err, TD_EIO,
                                  "%s: cannot make a temporary folder (set TMPDIR, or use --keep DIR)",
                                  p->folder);
}

/* One fixture uses the folder itself; several have a folder each. */
static int make_item_folder(struct td_gate_plan *p, struct td_gate_item *it, struct td_error *err)
{
    if (p->n == 1) {
        memcpy(it->folder, p->folder, sizeof it->folder);
        return TD_OK;
    }
    if (td_fs_join(it->folder, sizeof it->folder, p->folder, it->name, err))
        return err->code;
    return td_fs_mkdirs(it->folder, err);
}

int td_gate_plan_make(const struct td_gate_options *o, struct td_gate_plan *p, struct td_error *err)
{
    size_t i;
    int rc;

    memset(p, 0, sizeof *p);
    p->opt = o;
    rc = list_items(o, p, err);
    if (!rc)
        rc = check_calibrate(o, err);
    if (!rc)
        rc = check_with_differ(p, err);
    if (!rc)
        rc = make_root(p, err);
    for (i = 0; i < p->n && !rc; i++)
        rc = make_item_folder(p, &p->item[i], err);
    return rc;
}

/* Leave no folder behind in which nothing is kept, as when an option was refused by replay. */
static void remove_empty_folders(const struct td_gate_plan *p)
{
    size_t i;

    for (i = 0; i < p->n; i++)
        if (p->item[i].folder[0])
            rmdir(p->item[i].folder);
    if (p->folder[0])
        rmdir(p->folder);
}

void td_gate_plan_end(struct td_gate_plan *p)
{
    if (p->item && p->opt->keep)
        remove_empty_folders(p);
    if (p->temporary)
        td_fs_remove_tree(p->folder, NULL);
    if (p->temporary && p->lock >= 0)
        close(p->lock);
    free(p->item);
    memset(p, 0, sizeof *p);
}
