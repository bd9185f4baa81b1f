/* suite.c - read a list of prompts, and plan its requests.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/out_of_memory.h"

#define MAX_CONCURRENCY 4096

static void prompt_release(struct td_prompt *p)
{
    free(p->id);
    free(p->category);
    free(p->text);
    free(p->ids);
    cJSON_Delete(p->messages);
}

void td_suite_release(struct td_suite *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        prompt_release(&s->prompts[i]);
    free(s->prompts);
    free(s->name);
    memset(s, 0, sizeof *s);
}

/* ---- one line ------------------------------------------------------------------------------------------------------- */

static int read_ids(const cJSON *list, struct td_prompt *p, struct td_error *err)
{
    int n = cJSON_GetArraySize(list);
    const cJSON *e;

    if (!cJSON_IsArray(list) || !n)
        return td_fail(err, TD_EINVAL, "prompt_token_ids is no list of numbers");
    p->ids = malloc((size_t)n * sizeof *p->ids);
    if (!p->ids)
        return td_fail(err, TD_ENOMEM, "out of memory for %d token ids", n);
    cJSON_ArrayForEach(e, list) {
        if (!cJSON_IsNumber(e) || e->valuedouble < 0 || e->valuedouble > INT32_MAX)
            return td_fail(err, TD_EINVAL, "prompt_token_ids holds something that is no token id");
        p->ids[p->n_ids++] = (int32_t)e->valuedouble;
    }
    return TD_OK;
}

static int read_int(const cJSON *v, const char *key, int64_t max, int32_t *out, struct td_error *err)
{
    int64_t n = td_json_i64(v, -1);

    if (!cJSON_IsNumber(v) || n < 1 || n > max)
        return td_fail(err, TD_EINVAL, "%s is no number from 1 to %lld", key, (long long)max);
    *out = (int32_t)n;
    return TD_OK;
}

static int read_member(const cJSON *m, struct td_prompt *p, struct td_error *err)
{
    const char *key = m->string;
    char **str = !strcmp(key, "id") ? &p->id : !strcmp(key, "category") ? &p->category : !strcmp(key, "prompt") ? &p->text : NULL;

    if (str) {
        if (!cJSON_IsString(m) || *str)
            return td_fail(err, TD_EINVAL, "\"%s\" is no text, or there twice", key);
        return (*str = td_strdup(m->valuestring)) ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");
    }
    if (!strcmp(key, "messages")) {
        if (!cJSON_IsArray(m) || !m->child || p->messages)
            return td_fail(err, TD_EINVAL, "\"messages\" is no list, or there twice");
        return (p->messages = cJSON_Duplicate(m, true)) ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");
    }
    if (!strcmp(key, "prompt_token_ids"))
        return p->ids ? td_fail(err, TD_EINVAL, "prompt_token_ids twice") : read_ids(m, p, err);
    if (!strcmp(key, "max_tokens"))
        return read_int(m, key, 1 << 20, &p->max_tokens, err);
    if (!strcmp(key, "concurrency"))
        return read_int(m, key, MAX_CONCURRENCY, &p->concurrency, err);
    return td_fail(err, TD_EINVAL, "unknown member \"%s\"; known are id, category, prompt, messages, prompt_token_ids, "
                   "max_tokens, concurrency", key);
}

static int read_prompt(const char *line, size_t n, struct td_prompt *p, struct td_error *err)
{
    cJSON *v = td_json_parse(line, n, err);
    const cJSON *m;
    int rc = v ? TD_OK : TD_EINVAL;

    p->concurrency = 1;
    if (v && !cJSON_IsObject(v))
        rc = td_fail(err, TD_EINVAL, "a line is no JSON object");
    if (!rc)
        cJSON_ArrayForEach(m, v)
            if ((rc = read_member(m, p, err)))
                break;
    if (!rc && (!p->id || !*p->id))
        rc = td_fail(err, TD_EINVAL, "a prompt has no \"id\"");
    if (!rc && (p->text != NULL) + (p->messages != NULL) + (p->ids != NULL) != 1)
        rc = td_fail(err, TD_EINVAL, "\"%s\" needs one of prompt, messages, prompt_token_ids", p->id);
    if (!rc && !p->category && !(p->category = td_strdup("")))
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    cJSON_Delete(v);
    return rc;
}

/* ---- the file ------------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp((*(struct td_prompt *const *)a)->id, (*(struct td_prompt *const *)b)->id);
}

static int check_ids(const struct td_suite *s, struct td_error *err)
{
    const struct td_prompt **sorted = malloc((s->n + 1) * sizeof *sorted);
    size_t i;
    int rc = TD_OK;

    if (!sorted)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu prompts", s->n);
    for (i = 0; i < s->n; i++)
        sorted[i] = &s->prompts[i];
    qsort(sorted, s->n, sizeof *sorted, by_id);
    for (i = 1; i < s->n && !rc; i++)
        if (!strcmp(sorted[i - 1]->id, sorted[i]->id))
            rc = td_fail(err, TD_EINVAL, "the id \"%s\" is there twice; ids join recordings and must differ", sorted[i]->id);
    free(sorted);
    return rc;
}

static int add_line(struct td_suite *s, size_t *cap, const char *line, size_t n, struct td_error *err)
{
    int rc = td_array_grow(&s->prompts, s->n, cap, sizeof *s->prompts, TD_SUITE_MAX_PROMPTS);

    if (rc == TD_ELIMIT)
        return td_fail(err, rc, "more than %d prompts", TD_SUITE_MAX_PROMPTS);
    if (rc)
        return td_fail(err, rc, "out of memory for %zu prompts", s->n + 1);
    s->prompts[s->n] = (struct td_prompt){0};
    return read_prompt(line, n, &s->prompts[s->n++], err);
}

int td_suite_parse(const char *text, size_t n, const char *name, struct td_suite *out, struct td_error *err)
{
    size_t at = 0, cap = 0, number = 0;
    int rc = TD_OK;

    *out = (struct td_suite){.name = td_strdup(name), .hash = td_hash_bytes(text, n)};
    if (!out->name)
        return td_fail(err, TD_ENOMEM, "out of memory");
    while (at < n && !rc) {
        const char *nl = memchr(text + at, '\n', n - at);
        size_t len = nl ? (size_t)(nl - text) - at : n - at, blanks = 0;

        number++;
        while (blanks < len && strchr(" \t\r", text[at + blanks]) && text[at + blanks])
            blanks++;
        if (blanks < len && text[at + blanks] != '#')
            rc = add_line(out, &cap, text + at, len, err);
        at += len + (nl != NULL);
    }
    if (rc)
        td_fail_at(err, "suite %s, line %zu", name, number);
    else if (!out->n)
        rc = td_fail(err, TD_EINVAL, "suite %s holds no prompts", name);
    else if ((rc = check_ids(out, err)))
        td_fail_at(err, "suite %s", name);
    if (rc)
        td_suite_release(out);
    return rc;
}

/* Find a built-in suite beside the program's folder: of the tree (bin, build/san/bin, a test) or of
 * an installation. */
static int find_builtin(const char *name, char *path, size_t n, struct td_error *err)
{
    static const char *const places[] = {"../fixtures/suites", "../../fixtures/suites", "../../../fixtures/suites",
                                         "../../../../fixtures/suites", "../../../../../fixtures/suites"};
    char self[TD_PATH_MAX];
    size_t i;
    int rc = td_fs_self_dir(self, sizeof self, err);

    for (i = 0; !rc && i < sizeof places / sizeof *places; i++) {
        snprintf(path, n, "%.3000s/%s/%s.jsonl", self, places[i], name);
        if (td_fs_exists(path))
            return TD_OK;
    }
    return rc ? rc
              : td_fail(err, TD_ENOTFOUND,
                        "the built-in suite \"%s\" is not installed beside %s; give a file: "
                        "--suite FILE.jsonl",
                        name, self);
}

static void plain_name(const char *path, char *out, size_t n)
{
    const char *slash = strrchr(path, '/');
    size_t len;

    snprintf(out, n, "%.250s", slash ? slash + 1 : path);
    len = strlen(out);
    if (len > 6 && !strcmp(out + len - 6, ".jsonl"))
        out[len - 6] = '\0';
}

int td_suite_load(const char *name, struct td_suite *out, struct td_error *err)
{
    bool builtin = !strcmp(name, "quick") || !strcmp(name, "full");
    struct td_buf text = TD_BUF_INIT(TD_SUITE_MAX_BYTES);
    char path[TD_PATH_MAX], plain[256];
    int rc = TD_OK;

    memset(out, 0, sizeof *out);
    if (builtin)
        rc = find_builtin(name, path, sizeof path, err);
    else if (!td_fs_exists(name))
        rc = td_fail(err, TD_EINVAL,
                     "no suite \"%s\": the built-in ones are quick and full, anything else is a "
                     "file of JSON lines",
                     name);
    else
        snprintf(path, sizeof path, "%s", name);
    if (!rc)
        rc = td_fs_read(path, TD_SUITE_MAX_BYTES, &text, err);
    if (!rc) {
        plain_name(path, plain, sizeof plain);
        rc = td_suite_parse(td_buf_str(&text), text.len, plain, out, err);
    }
    td_buf_release(&text);
    return rc;
}

/* ---- the plan ------------------------------------------------------------------------------------------------------- */

struct planning {
    const struct td_suite *suite;
    const struct td_api_server *server;
    const struct td_sampling *sampling;
    const struct td_suite_sending *how;
    struct td_plan *plan;
    size_t full;              /* the plan's length when `most` are planned */
    int64_t loop;             /* number of the loop that is planned; 0: none */
};

static int plan_prompt(const struct planning *g, const struct td_prompt *p, int32_t repeat, int32_t concurrency, int64_t group,
                       int64_t at_ns, struct td_error *err)
{
    struct td_buf body = TD_BUF_INIT((size_t)64 << 20);
    const char *path = NULL;
    struct td_plan_item it = {.prompt_id = p->id, .category = p->category, .method = NULL, .repeat = repeat,
                              .concurrency = concurrency, .phase = g->how->phase, .group = group,
                              .loop = g->loop, .at_ns = at_ns};
    int rc = td_api_write_body(g->server, p, g->sampling, &body, &path, err);

    if (!rc) {
        char *api = td_strdup(td_api_name(g->server->kind)), *where = td_strdup(path);

        it.api = api;
        it.path = where;
        it.body = body.data;
        it.body_len = body.len;
        rc = td_plan_add(g->plan, &it, err);
        free(api);
        free(where);
    }
    td_buf_release(&body);
    return rc;
}

/* Only what is timed goes in closed loops: steps of the tapped phase are told apart by groups (step_rows.h). One request
 * at a time is a group of one, behind which exchanges can be derived. */
static bool is_loop(const struct td_suite_sending *how, int32_t level)
{
    return how->phase == TD_PHASE_TIMED && level > 1;
}

/* Plan all prompts of one level of concurrency, in groups of that size. The groups of a loop say in which order its requests
 * begin; nothing waits for them. */
static int plan_level(const struct planning *g, int32_t repeat, int32_t level, bool all, struct td_error *err)
{
    int64_t group = td_plan_next_group(g->plan);
    int32_t in_group = 0;
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < g->suite->n && g->plan->n < g->full && !rc; i++) {
        const struct td_prompt *p = &g->suite->prompts[i];

        if (!all && p->concurrency != level)
            continue;
        if (in_group == level) {
            in_group = 0;
            group++;
        }
        in_group++;
        rc = plan_prompt(g, p, repeat, level, group, -1, err);
    }
    return rc;
}

static bool level_seen(const struct td_suite *s, size_t i)
{
    size_t j;

    for (j = 0; j < i; j++)
        if (s->prompts[j].concurrency == s->prompts[i].concurrency)
            return true;
    return false;
}

/* Plan prompts one after the other, each at its time. */
static int plan_arrivals(const struct planning *g, struct td_error *err)
{
    const struct td_suite_sending *how = g->how;
    const int64_t group = td_plan_next_group(g->plan), all = how->repeats * (int64_t)g->suite->n;
    struct td_arrival_times times;
    int64_t i;
    int rc = TD_OK;

    td_arrival_begin(&times, how->arrival);
    for (i = 0; i < all && g->plan->n < g->full && !rc; i++) {
        const int64_t at = td_arrival_next(&times), n = (int64_t)g->suite->n;

        rc = plan_prompt(g, &g->suite->prompts[i % n], how->first_repeat + (int32_t)(i / n), 0, group, at, err);
    }
    return rc;
}

/* All repeats are one loop, and what is planned behind it is of it, too. */
static int64_t plan_loop(const struct td_plan *plan, const struct td_suite_sending *how)
{
    const struct td_plan_item *last = plan->n ? &plan->items[plan->n - 1] : NULL;
    const bool goes_on = last && last->loop > 0 && last->concurrency == how->concurrency && last->phase == how->phase;

    return goes_on ? last->loop : td_plan_next_loop(plan);
}

int td_suite_plan(const struct td_suite *suite, const struct td_api_server *server, const struct td_sampling *sampling,
                  const struct td_suite_sending *how, struct td_plan *plan, struct td_error *err)
{
    struct planning g = {suite, server, sampling, how, plan, how->most > 0 ? plan->n + (size_t)how->most : SIZE_MAX, 0};
    int32_t r;
    size_t i;
    int rc = TD_OK;

    if (how->arrival)
        return plan_arrivals(&g, err);
    g.loop = is_loop(how, how->concurrency) ? plan_loop(plan, how) : 0;
    for (r = how->first_repeat; r < how->first_repeat + how->repeats && !rc; r++) {
        if (how->concurrency > 0)
            rc = plan_level(&g, r, how->concurrency, true, err);
        else
            for (i = 0; i < suite->n && !rc; i++)
                if (!level_seen(suite, i)) {
                    g.loop = is_loop(how, suite->prompts[i].concurrency) ? td_plan_next_loop(plan) : 0;
                    rc = plan_level(&g, r, suite->prompts[i].concurrency, false, err);
                }
    }
    return rc;
}
