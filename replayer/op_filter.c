/* op_filter.c - does each --only match an op? One that matches none would check nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_SHOWN 8
#define LAYERS_SHOWN 12
#define NAME_SHOWN 80          /* bytes of a name in a message */
#define MAX_NAMES 4096         /* different names that are counted */

/* Different names, in the order in which they come. */
struct names {
    char *name[LAYERS_SHOWN]; int shown, most;
    uint64_t hash[MAX_NAMES]; size_t n; /* of all of them */
};

struct filter {
    const struct td_arg_list *only;
    bool matched[TD_ARG_LIST_MAX];
    struct names kernels, layers;
    int64_t ops;
};

static void add_name(struct names *s, const char *name)
{
    uint64_t h;
    size_t i;

    if (!name || !*name)
        return;
    h = td_hash64(name, strlen(name));
    for (i = s->n; i-- > 0;) /* ops of one layer are neighbours */
        if (s->hash[i] == h)
            return;
    if (s->n == MAX_NAMES)
        return;
    s->hash[s->n++] = h;
    if (s->shown < s->most && (s->name[s->shown] = strndup(name, NAME_SHOWN)))
        s->shown++;
}

static void release_names(struct names *s)
{
    while (s->shown)
        free(s->name[--s->shown]);
}

static void look_at(struct filter *f, const struct td_op *op)
{
    int i;

    f->ops++;
    for (i = 0; i < f->only->n; i++)
        f->matched[i] = f->matched[i] || td_op_named(op, f->only->item[i]);
    add_name(&f->kernels, op->kind);
    add_name(&f->layers, op->layer);
}

/* "kernels: a, b and 7 more": as many names as there is room for. Returns the length. */
static size_t list_names(const struct names *s, const char *what, char *out, size_t n)
{
    size_t at = (size_t)snprintf(out, n, "%s:", what), listed = 0;

    while (listed < (size_t)s->shown && at + strlen(s->name[listed]) + sizeof ", and 4096 or more more" < n) {
        at += (size_t)snprintf(out + at, n - at, "%s %s", listed ? "," : "", s->name[listed]);
        listed++;
    }
    if (s->n > listed)
        at += (size_t)snprintf(out + at, n - at, " and %zu%s more", s->n - listed, s->n == MAX_NAMES ? " or" : "");
    if (!s->n)
        at += (size_t)snprintf(out + at, n - at, " none is known");
    return at;
}

static int refuse_pattern(const struct filter *f, const char *pattern, struct td_error *err)
{
    char kernels[120], layers[240];

    list_names(&f->kernels, "kernels", kernels, sizeof kernels);
    list_names(&f->layers, "layers", layers, sizeof layers);
    return td_fail(err, TD_EINVAL, "--only %.40s: matches none of %lld recorded ops; %s; %s", pattern, (long long)f->ops, kernels,
                   layers);
}

static int read_names(struct td_fixture *fx, struct filter *f, struct td_error *err)
{
    struct td_cursor *c = NULL;
    struct td_op op = {0};
    struct td_error bad = {0};
    int rc = td_cursor_open(fx, TD_STREAM_OPS, &c, err);

    if (rc)
        return rc;
    while ((rc = td_cursor_op(c, &op, &bad)) != 0) {
        td_error_clear(&bad);
        if (rc > 0)
            look_at(f, &op);
        else if (rc != TD_ECORRUPT && rc != TD_ETRUNCATED && rc != TD_ELIMIT)
            break; /* the scan that follows will say why */
    }
    td_op_release(&op);
    td_cursor_close(c);
    return TD_OK;
}

int td_op_filter_check(struct td_fixture *fx, const struct td_arg_list *only, struct td_error *err)
{
    struct filter *f;
    int i, rc = TD_OK;

    if (!only->n)
        return TD_OK;
    if (!(f = calloc(1, sizeof *f)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    f->only = only;
    f->kernels.most = KERNELS_SHOWN;
    f->layers.most = LAYERS_SHOWN;
    rc = read_names(fx, f, err);
    for (i = 0; i < only->n && !rc && f->ops; i++)
        if (!f->matched[i])
            rc = refuse_pattern(f, only->item[i], err);
    release_names(&f->kernels);
    release_names(&f->layers);
    free(f);
    return rc;
}
