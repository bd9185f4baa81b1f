/* torch_own_rows.c - rows of operators that the user wrote.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_own_rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/tap/gpu/own_texts.h"

_Static_assert(TD_OWN_ROLES <= TAP_TORCH_ROLES, "a row of ours has room for each role");

/* What the operators of a text mean. Never freed. */
struct own_set {
    struct tap_torch_row row[TD_OWN_ROWS];
    const struct tap_torch_meaning *meaning[TD_OWN_ROWS]; /* as last asked for */
    int n;
};

static struct own_set *sets[TAP_OWN_TEXTS]; /* the tap's thread */
static _Atomic(struct own_set *) current;

/* ---- a row of the file as one of ours -------------------------------------------------------- */

static const char *name_or_null(const char *name)
{
    return name[0] ? name : NULL;
}

static void make_row(struct tap_torch_row *to, const struct td_own_row *own)
{
    int i, n = 0;

    *to = (struct tap_torch_row){.name = own->name,
                                 .does = TAP_TORCH_MULTIPLIES,
                                 .kind = own->kind->name,
                                 .layout = strcmp(own->layout, "nk") && strcmp(own->layout, "kn")
                                               ? own->layout
                                               : "checkpoint",
                                 .out = name_or_null(own->out),
                                 .own = own};
    for (i = 0; i < TD_OWN_ROLES && own->kind->roles[i]; i++)
        if (own->arg[i][0])
            to->roles[n++] = (struct tap_torch_role){.arg = own->arg[i],
                                                     .role = own->kind->roles[i],
                                                     .use = td_own_kind_is_of_the_call(own->kind, i)
                                                                ? TD_GPU_IN
                                                                : TD_GPU_WEIGHT};
}

static struct own_set *make_set(const struct td_own_rows *file)
{
    struct own_set *s = calloc(1, sizeof *s);
    int i;

    for (i = 0; s && i < file->n; i++)
        if (!file->row[i].is_kernel)
            make_row(&s->row[s->n++], &file->row[i]);
    return s;
}

const char *tap_torch_own_set(const char *text, size_t n)
{
    const struct td_own_rows *file;
    int at = 0;
    const char *why = text ? tap_own_text(text, n, &at, &file) : NULL;

    if (text && !why && !sets[at] && !(sets[at] = make_set(file)))
        why = "out of memory";
    atomic_store(&current, text && !why ? sets[at] : NULL);
    return why;
}

/* ---- meanings -------------------------------------------------------------------------------- */

const struct tap_torch_meaning *tap_torch_own_meaning(const char *name,
                                                      const struct tap_torch_schema *schema,
                                                      bool *named)
{
    struct own_set *s = atomic_load(&current);
    int i;

    for (i = 0; s && i < s->n && strcmp(s->row[i].name, name); i++)
        ;
    *named = s && i < s->n;
    if (!*named)
        return NULL;
    if (!s->meaning[i] || s->meaning[i]->schema != schema)
        s->meaning[i] = tap_torch_meaning_of_row(&s->row[i], schema);
    return s->meaning[i];
}

const struct tap_torch_row *tap_torch_own_at(int i)
{
    const struct own_set *s = atomic_load(&current);

    return s && i < s->n ? &s->row[i] : NULL;
}

void tap_torch_own_say_why(const struct tap_torch_row *row, const struct tap_torch_schema *schema,
                           char *out, size_t size)
{
    const struct td_own_row *own = row->own;
    const char *names[TD_OWN_ARGUMENTS];
    const int n = td_own_row_arguments(own, names);
    int i;

    snprintf(out, size, "an argument has another type than its key, or C is not where the row says");
    for (i = 0; i < n; i++)
        if (names[i][0] && tap_torch_schema_arg(schema, names[i]) < 0) {
            snprintf(out, size, "no argument \"%s\"", names[i]);
            return;
        }
}
