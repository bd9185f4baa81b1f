/* own_json.c - the file of --ops, for the process of provider torch.
 * SPDX-License-Identifier: Apache-2.0
 *
 * {"load":[{"path":"/…/libmine.so"},{"module":"mine"}],
 *  "rows":[{"name":"mine::gemm","kind":"gemm","layout":"nk","rounding":"none","zero_offset":1,
 *           "needs":["w"],"args":{"a":"x","w":"weight"},"out":"y","bits":{"value":4},
 *           "group_size":{"arg":"group"},
 *           "fixed":[{"arg":"fast","value":true},{"arg":"eps","real":1},{"arg":"ws","zeros":{"dtype":"I32","shape":[8]}}]}]} */
#include "replayer/own_json.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "kernels/adapters/own_file.h"

#define MOST_BYTES 120000              /* Linux takes 128 KiB in one variable */

/* ---- rows ------------------------------------------------------------------------------------ */

static void add_number(cJSON *row, const char *key, const struct td_own_number *n)
{
    cJSON *o = n->given ? cJSON_AddObjectToObject(row, key) : NULL;

    if (n->given && n->arg[0])
        cJSON_AddStringToObject(o, "arg", n->arg);
    else if (n->given)
        cJSON_AddNumberToObject(o, "value", (double)n->value);
}

static void add_zeros(cJSON *o, const struct td_own_fixed *f)
{
    cJSON *zeros = cJSON_AddObjectToObject(o, "zeros"), *shape;
    int i;

    cJSON_AddStringToObject(zeros, "dtype", f->text);
    shape = cJSON_AddArrayToObject(zeros, "shape");
    for (i = 0; i < f->ndim; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)f->shape[i]));
}

static void add_fixed(cJSON *list, const struct td_own_fixed *f)
{
    cJSON *o = cJSON_CreateObject();
    char number[24];

    cJSON_AddItemToArray(list, o);
    cJSON_AddStringToObject(o, "arg", f->arg);
    switch (f->is) {
    case TD_OWN_NONE: cJSON_AddNullToObject(o, "value"); break;
    case TD_OWN_BOOL: cJSON_AddBoolToObject(o, "value", f->number != 0); break;
    case TD_OWN_INT:                   /* cJSON prints large ones as floats */
        snprintf(number, sizeof number, "%lld", (long long)f->number);
        cJSON_AddRawToObject(o, "value", number);
        break;
    case TD_OWN_FLOAT:                 /* a float in Python as well: 1.0 is no int */
        cJSON_AddNumberToObject(o, "real", f->real);
        break;
    case TD_OWN_TEXT: cJSON_AddStringToObject(o, "value", f->text); break;
    case TD_OWN_ZEROS: add_zeros(o, f); break;
    }
}

static void add_row(cJSON *rows, const struct td_own_row *from)
{
    cJSON *row = cJSON_CreateObject(), *args, *needs, *fixed;
    int i;

    cJSON_AddItemToArray(rows, row);
    cJSON_AddStringToObject(row, "name", from->name);
    cJSON_AddStringToObject(row, "kind", from->kind->name);
    cJSON_AddStringToObject(row, "layout", from->layout);
    cJSON_AddStringToObject(row, "rounding", from->rounding);
    cJSON_AddNumberToObject(row, "zero_offset", (double)from->zero_offset.value);
    args = cJSON_AddObjectToObject(row, "args");
    needs = cJSON_AddArrayToObject(row, "needs");
    for (i = 0; i < TD_OWN_ROLES && from->kind->roles[i]; i++) {
        if (from->arg[i][0])
            cJSON_AddStringToObject(args, from->kind->roles[i], from->arg[i]);
        if (i && i < from->kind->n_needed)
            cJSON_AddItemToArray(needs, cJSON_CreateString(from->kind->roles[i]));
    }
    if (from->out[0])
        cJSON_AddStringToObject(row, "out", from->out);
    if (from->type)
        cJSON_AddStringToObject(row, "type", from->type);
    add_number(row, "bits", &from->bits);
    add_number(row, "group_size", &from->group_size);
    add_number(row, "top_k", &from->top_k);
    add_number(row, "block_size", &from->block_size);
    add_number(row, "mul_topk_weights", &from->mul_topk_weights);
    if (from->kind->routed)
        cJSON_AddNumberToObject(row, "round_topk_weights", (double)from->round_topk_weights.value);
    fixed = cJSON_AddArrayToObject(row, "fixed");
    for (i = 0; i < from->n_fixed; i++)
        add_fixed(fixed, &from->fixed[i]);
}

/* ---- what is loaded -------------------------------------------------------------------------- */

/* A path of the file at `file`: absolute, or from its folder. */
static int add_load(cJSON *list, const char *file, bool is_module, const char *name, struct td_error *err)
{
    const char *slash = strrchr(file, '/');
    char path[TD_PATH_MAX];
    cJSON *o = cJSON_CreateObject();
    int n = *name == '/' || !slash ? snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : "./", name)
                                   : snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, name);

    cJSON_AddItemToArray(list, o);
    cJSON_AddStringToObject(o, is_module ? "module" : "path", is_module ? name : path);
    return n < (int)sizeof path ? TD_OK : td_fail(err, TD_ELIMIT, "--ops %s: the path to load is too long", file);
}

static int make_variable(const cJSON *all, char **out, struct td_error *err)
{
    char *text = cJSON_PrintUnformatted(all);
    int rc = TD_OK;

    if (!text || asprintf(out, "TD_OPS_ROWS=%s", text) < 0)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else if (strlen(*out) > MOST_BYTES)
        rc = td_fail(err, TD_ELIMIT, "--ops: the file says more than a build's process can be told; split it");
    cJSON_free(text);
    return rc;
}

int td_own_json_variable(const char *path, char **out, struct td_error *err)
{
    struct td_own_file *file = malloc(sizeof *file);
    char why[TD_PATH_MAX + 300];
    cJSON *all = cJSON_CreateObject(), *list;
    int i, rc = TD_OK;

    *out = NULL;
    if (!file || !all)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else if (!td_own_file_read(path, file, why, sizeof why))
        rc = td_fail(err, TD_EINVAL, "--ops %s", why);
    list = rc ? NULL : cJSON_AddArrayToObject(all, "load");
    for (i = 0; !rc && i < file->rows.n_loads; i++)
        rc = add_load(list, path, file->rows.load[i].is_module, file->rows.load[i].name, err);
    list = rc ? NULL : cJSON_AddArrayToObject(all, "rows");
    for (i = 0; !rc && i < file->rows.n; i++)
        if (!file->rows.row[i].is_kernel)
            add_row(list, &file->rows.row[i]);
    if (!rc)
        rc = make_variable(all, out, err);
    cJSON_Delete(all);
    free(file);
    return rc;
}
