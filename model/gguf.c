/* gguf.c - a model in one or several GGUF files: mapped, read, its tensors by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "model/gguf_read.h"

static int map_file(const char *path, struct td_gguf_file *out, struct td_error *err)
{
    const void *data;
    size_t n;
    int rc = td_fs_map(path, &data, &n, err);

    if (!rc && !n)
        rc = td_fail(err, TD_ETRUNCATED, "%s: truncated: it is empty; fetch it again", path);
    if (rc)
        return rc;
    *out = (struct td_gguf_file){strdup(path), data, n, true};
    if (out->path)
        return TD_OK;
    munmap((void *)data, n);
    return td_fail(err, TD_ENOMEM, "out of memory");
}

/* ---- a model in several files ---------------------------------------------------------------- */

/* "DIR/NAME-00002-of-00003.gguf" -> the name of file i of n. False: the path is not named like that. */
static bool sibling_path(const char *path, unsigned i, unsigned n, char *out, size_t size)
{
    size_t len = strlen(path), tail = strlen("-00001-of-00003.gguf");
    unsigned a, b;
    int end = 0;

    if (len <= tail || sscanf(path + len - tail, "-%5u-of-%5u.gguf%n", &a, &b, &end) != 2 || end != (int)tail || b != n)
        return false;
    return snprintf(out, size, "%.*s-%05u-of-%05u.gguf", (int)(len - tail), path, i, n) < (int)size;
}

static int add_siblings(struct td_gguf *g, struct td_error *err)
{
    struct td_gguf_value split = td_gguf_meta(g, "split.count");
    char path[4096];
    unsigned i, n = split.kind == TD_GGUF_UINT && split.v.u <= TD_GGUF_MAX_FILES ? (unsigned)split.v.u : 0;
    struct td_gguf_file *all;
    int rc = TD_OK;

    if (split.kind != TD_GGUF_UINT || split.v.u <= 1)
        return TD_OK;
    if (!n)
        return td_fail(err, TD_ELIMIT, "%s: a model in %llu files, at most %d are read", g->path,
                       (unsigned long long)split.v.u, TD_GGUF_MAX_FILES);
    all = realloc(g->files, n * sizeof *all);
    if (!all)
        return td_fail(err, TD_ENOMEM, "out of memory");
    g->files = all;
    for (i = 1; i <= n && !rc; i++) {
        if (!sibling_path(g->path, i, n, path, sizeof path) ||
            (strcmp(path, g->path) &&
             g->n_files == n)) /* the latter: the first file is none of the siblings */
            return td_fail(err, TD_EINVAL,
                           "%s: one of %u files, but not named NAME-00001-of-%05u.gguf, so the "
                           "others cannot be found",
                           g->path, n, n);
        if (!strcmp(path, g->path))
            continue;
        memset(&g->files[g->n_files], 0, sizeof *g->files);
        rc = map_file(path, &g->files[g->n_files], err);
        if (!rc)
            rc = td_gguf_read_file(g, &g->files[g->n_files++], err);
    }
    return rc;
}

/* ---- the interface --------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_gguf_tensor *)a)->name, ((const struct td_gguf_tensor *)b)->name);
}

static int sort_tensors(struct td_gguf *g, struct td_error *err)
{
    size_t i;

    if (g->n)
        qsort(g->tensors, g->n, sizeof *g->tensors, by_name);
    for (i = 1; i < g->n; i++)
        if (!strcmp(g->tensors[i - 1].name, g->tensors[i].name))
            return td_fail(err, TD_ECORRUPT, "%s: two tensors are named \"%s\"", g->tensors[i].path, g->tensors[i].name);
    return TD_OK;
}

static int begin_open(const char *path, struct td_gguf **out, struct td_error *err)
{
    struct td_gguf *g = calloc(1, sizeof *g);

    *out = g;
    if (!g || !(g->path = strdup(path)) || !(g->files = calloc(1, sizeof *g->files)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    return TD_OK;
}

static int end_open(struct td_gguf **out, int rc)
{
    if (rc) {
        td_gguf_close(*out);
        *out = NULL;
    }
    return rc;
}

int td_gguf_open(const char *path, struct td_gguf **out, struct td_error *err)
{
    int rc = begin_open(path, out, err);
    struct td_gguf *g = *out;

    if (!rc)
        rc = map_file(path, &g->files[0], err);
    if (!rc)
        rc = td_gguf_read_file(g, &g->files[g->n_files++], err);
    if (!rc)
        rc = add_siblings(g, err);
    return end_open(out, rc ? rc : sort_tensors(g, err));
}

int td_gguf_memory(const void *data, size_t n, const char *name, struct td_gguf **out, struct td_error *err)
{
    int rc = begin_open(name, out, err);
    struct td_gguf *g = *out;

    if (!rc) {
        g->files[0] = (struct td_gguf_file){strdup(name), data, n, false};
        g->n_files = 1;
        rc = g->files[0].path ? td_gguf_read_file(g, &g->files[0], err) : td_fail(err, TD_ENOMEM, "out of memory");
    }
    return end_open(out, rc ? rc : sort_tensors(g, err));
}

void td_gguf_close(struct td_gguf *g)
{
    size_t i;

    if (!g)
        return;
    for (i = 0; i < g->n; i++) {
        if (g->tensors[i].dtype && !td_gguf_known_type(&g->tensors[i]))
            free((char *)g->tensors[i].dtype);
        free((char *)g->tensors[i].name);
    }
    for (i = 0; i < g->n_files; i++) {
        if (g->files[i].mapped)
            munmap((void *)g->files[i].data, g->files[i].n);
        free(g->files[i].path);
    }
    td_gguf_release_keys(g->keys, g->n_keys);
    free(g->tensors);
    free(g->files);
    free(g->path);
    free(g);
}

const char *td_gguf_path(const struct td_gguf *g)
{
    return g->path;
}

size_t td_gguf_count(const struct td_gguf *g)
{
    return g->n;
}

const struct td_gguf_tensor *td_gguf_at(const struct td_gguf *g, size_t i)
{
    return &g->tensors[i];
}

const struct td_gguf_tensor *td_gguf_find(const struct td_gguf *g, const char *name)
{
    struct td_gguf_tensor key = {.name = name};

    return g->n ? bsearch(&key, g->tensors, g->n, sizeof key, by_name) : NULL;
}

struct td_gguf_value td_gguf_meta(const struct td_gguf *g, const char *key)
{
    return td_gguf_find_key(g->keys, g->n_keys, key);
}
