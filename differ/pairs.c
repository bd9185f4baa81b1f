/* pairs.c - which baseline belongs to which candidate: two fixtures, or two folders of them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/pairs.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fixture_folders.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/out_of_memory.h"
#include "format/fixture.h"

/* A fixture, and whose replay it is. */
struct named {
    const char *path;      /* borrowed */
    char id[128], of[128]; /* of: "" of a recording */
    struct td_error why;   /* it cannot be read */
    bool taken;
};

static void read_names(const char *path, struct named *out)
{
    struct td_fixture *fx;

    memset(out, 0, sizeof *out);
    out->path = path;
    if (td_fixture_open(path, &fx, &out->why))
        return;
    snprintf(out->id, sizeof out->id, "%s", td_fixture_id(fx));
    snprintf(out->of, sizeof out->of, "%s",
             td_json_get_str(td_json_get(td_fixture_manifest(fx), "replay"), "of", ""));
    td_fixture_close(fx);
}

static struct named *read_all(const struct td_fixture_folders *l, struct td_error *err)
{
    struct named *names = calloc(l->n + 1, sizeof *names);
    size_t i;

    if (!names)
        td_fail(err, TD_ENOMEM, "out of memory for %zu fixtures", l->n);
    for (i = 0; names && i < l->n; i++)
        read_names(l->path[i], &names[i]);
    return names;
}

static struct td_pair *add_pair(struct td_pairs *p, const char *base, const char *candidate)
{
    struct td_pair *pair = &p->pair[p->n++];

    pair->base = base ? td_strdup(base) : NULL;
    pair->candidate = candidate ? td_strdup(candidate) : NULL;
    if ((base && !pair->base) || (candidate && !pair->candidate))
        td_fail(&pair->why, TD_ENOMEM, "out of memory for the names of fixtures");
    return pair;
}

/* Pair one baseline with its replay. */
static void add_base(struct td_pairs *p, const struct named *base, struct named *news, size_t n_news,
                     const char *folder)
{
    struct named *found = NULL, *second = NULL;
    struct td_pair *pair;
    size_t i;

    for (i = 0; i < n_news && !base->why.code; i++)
        if (!news[i].why.code && strcmp(news[i].of, base->id) == 0) {
            news[i].taken = true;
            if (!found)
                found = &news[i];
            else if (!second)
                second = &news[i];
        }
    pair = add_pair(p, base->path, found ? found->path : NULL);
    if (base->why.code)
        td_fail(&pair->why, base->why.code, "%s", base->why.msg);
    else if (second)
        td_fail(&pair->why, TD_EIO,
                "%.150s: has two replays, %.120s and %.120s; compare with one of them",
                base->path, found->path, second->path);
    else if (!found)
        td_fail(&pair->why, TD_ENOTFOUND, "%.200s: has no replay in %.200s", base->path, folder);
}

static void add_rest(struct td_pairs *p, const struct named *news, size_t n_news,
                     const char *folder)
{
    struct td_pair *pair;
    size_t i;

    for (i = 0; i < n_news; i++) {
        if (news[i].taken)
            continue;
        pair = add_pair(p, NULL, news[i].path);
        if (news[i].why.code)
            td_fail(&pair->why, news[i].why.code, "%s", news[i].why.msg);
        else
            td_fail(&pair->why, TD_ENOTFOUND, "%.200s: is no replay of a fixture in %.200s",
                    news[i].path, folder);
    }
}

static bool is_folder_of_fixtures(const struct td_fixture_folders *l, const char *path)
{
    return l->n != 1 || strcmp(l->path[0], path) != 0;
}

static int make_pairs(const char *base, const char *candidate, const struct td_fixture_folders *b,
                      const struct td_fixture_folders *c, struct td_pairs *out,
                      struct td_error *err)
{
    struct named *bases = read_all(b, err), *news = read_all(c, err);
    size_t i;
    int rc = bases && news ? TD_OK : TD_ENOMEM;

    for (i = 0; i < b->n && !rc; i++)
        add_base(out, &bases[i], news, c->n, candidate);
    if (!rc)
        add_rest(out, news, c->n, base);
    free(bases);
    free(news);
    return rc;
}

int td_pairs_find(const char *base, const char *candidate, struct td_pairs *out,
                  struct td_error *err)
{
    struct td_fixture_folders b = {0}, c = {0};
    int rc = td_fixture_folders_add(&b, base, err);

    memset(out, 0, sizeof *out);
    if (!rc)
        rc = td_fixture_folders_add(&c, candidate, err);
    if (!rc && !(out->pair = calloc(b.n + c.n + 1, sizeof *out->pair)))
        rc = td_fail(err, TD_ENOMEM, "out of memory for the list of fixtures");
    if (!rc && !is_folder_of_fixtures(&b, base) && !is_folder_of_fixtures(&c, candidate))
        add_pair(out, base, candidate);
    else if (!rc)
        rc = make_pairs(base, candidate, &b, &c, out, err);
    td_fixture_folders_say(&b, "diff");
    td_fixture_folders_say(&c, "diff");
    td_fixture_folders_release(&b);
    td_fixture_folders_release(&c);
    return rc;
}

void td_pairs_release(struct td_pairs *p)
{
    size_t i;

    for (i = 0; i < p->n; i++) {
        free(p->pair[i].base);
        free(p->pair[i].candidate);
    }
    free(p->pair);
    memset(p, 0, sizeof *p);
}
