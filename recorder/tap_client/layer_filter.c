/* layer_filter.c - the list of `record --layers`: which layers are wanted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/layer_filter.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 64
#define PARTS 16
#define NAME_BYTES 512

struct item {
    const char *text;                 /* as it was given */
    bool has_range, fitted;
    long from, to;
    char *part[PARTS]; int n_parts;
};
/* text : the list, its commas cut; words : the same, each item cut at its dots as well */
struct td_layer_filter { char *text, *words; struct item item[ITEMS]; int n; };

/* Cut s at its dots, in place. Returns how many parts; -1: too many. */
static int cut_at_dots(char *s, char *part[PARTS])
{
    int n = 0;

    while (s && n < PARTS) {
        part[n++] = s;
        s = strchr(s, '.');
        if (s)
            *s++ = '\0';
    }
    return s ? -1 : n;
}

/* Read "3" or "0-3". */
static bool read_range(const char *s, long *from, long *to)
{
    char *end;

    if (!isdigit((unsigned char)*s))
        return false;
    *from = *to = strtol(s, &end, 10);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        *to = strtol(end + 1, &end, 10);
    return !*end;
}

static int read_item(struct td_layer_filter *f, char *words, const char *text, struct td_error *err)
{
    struct item *i = &f->item[f->n];
    int p;

    if (f->n == ITEMS)
        return td_fail(err, TD_EINVAL, "--layers: more than %d items", ITEMS);
    i->text = text;
    i->n_parts = cut_at_dots(words, i->part);
    for (p = 0; p < i->n_parts; p++)
        if (!*i->part[p])
            return td_fail(err, TD_EINVAL,
                           "--layers \"%s\": a part of a name is empty; give 0-3, mlp.down_proj, "
                           "8.*_proj, with commas between",
                           text);
    if (i->n_parts < 0)
        return td_fail(err, TD_EINVAL, "--layers \"%s\": more than %d parts", text, PARTS);
    i->has_range = read_range(i->part[0], &i->from, &i->to);
    if (i->has_range && i->to < i->from)
        return td_fail(err, TD_EINVAL, "--layers \"%s\": the range ends before it begins", text);
    f->n++;
    return TD_OK;
}

int td_layer_filter_new(const char *text, struct td_layer_filter **out, struct td_error *err)
{
    struct td_layer_filter *f = calloc(1, sizeof *f);
    char *a, *b;
    int rc = TD_OK;

    *out = NULL;
    if (!f || !(f->text = strdup(text)) || !(f->words = strdup(text))) {
        td_layer_filter_free(f);
        return td_fail(err, TD_ENOMEM, "out of memory");
    }
    for (a = f->text, b = f->words; !rc && a;) {
        char *next = strchr(a, ',');

        if (next)
            *next = b[next - a] = '\0';
        rc = read_item(f, b, a, err);
        b = next ? b + (next - a) + 1 : NULL;
        a = next ? next + 1 : NULL;
    }
    if (rc)
        td_layer_filter_free(f);
    else
        *out = f;
    return rc;
}

void td_layer_filter_free(struct td_layer_filter *f)
{
    if (f) {
        free(f->text);
        free(f->words);
    }
    free(f);
}

int td_layer_filter_check(const char *text, struct td_error *err)
{
    struct td_layer_filter *f;
    int rc = td_layer_filter_new(text, &f, err);

    td_layer_filter_free(f);
    return rc;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* number -1: it has none */
struct name { char bytes[NAME_BYTES]; char *part[PARTS]; int n, number_at; long number; };

static bool is_number(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s);
}

static void read_name(struct name *n, const char *name)
{
    const char *hyphen = strrchr(name, '-');
    int i;

    snprintf(n->bytes, sizeof n->bytes, "%s", name);
    n->n = cut_at_dots(n->bytes, n->part);
    n->number = -1;
    n->number_at = -1;
    for (i = 0; i < n->n && n->number < 0; i++)
        if (is_number(n->part[i])) {
            n->number = strtol(n->part[i], NULL, 10);
            n->number_at = i;
        }
    if (n->number < 0 && hyphen && is_number(hyphen + 1))
        n->number = strtol(hyphen + 1, NULL, 10);
}

/* Does the name have, anywhere from its part `at` on, the item's parts from `first` on, one after
 * the other? */
static bool has_parts(const struct item *i, int first, const struct name *n, int at)
{
    int p;

    for (; at + i->n_parts - first <= n->n; at++) {
        for (p = first; p < i->n_parts && !fnmatch(i->part[p], n->part[at + p - first], 0); p++)
            ;
        if (p == i->n_parts)
            return true;
    }
    return false;
}

static bool item_fits(const struct item *i, const struct name *n, const char *name)
{
    if (!i->has_range)
        return has_parts(i, 0, n, 0) || !fnmatch(i->text, name, 0);
    return n->number >= i->from && n->number <= i->to &&
           (i->n_parts == 1 || has_parts(i, 1, n, n->number_at + 1));
}

bool td_layer_filter_wants(struct td_layer_filter *f, const char *name)
{
    bool wanted = false;
    struct name n;
    int i;

    if (!name)
        return false;
    read_name(&n, name);
    for (i = 0; i < f->n; i++)
        if (item_fits(&f->item[i], &n, name))
            wanted = f->item[i].fitted = true;
    return wanted;
}

bool td_layer_filter_unused(const struct td_layer_filter *f, char *to, size_t n)
{
    size_t at = 0;
    int i;

    *to = '\0';
    for (i = 0; i < f->n; i++)
        if (!f->item[i].fitted && at < n)
            at += (size_t)snprintf(to + at, n - at, "%s%s", at ? "," : "", f->item[i].text);
    return at > 0;
}
