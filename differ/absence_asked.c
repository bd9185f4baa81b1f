/* absence_asked.c - the count behind absence.def of answers to what the baseline was asked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An answer to another request shows nothing, also where it is the same. A replay asks what was
 * recorded, but for the model's name (--served-as), members that only improve a recording, and the
 * prompt's token ids in place of a text that is overwritten. Two recordings may differ in more: of
 * them only members that decide an answer are compared, where both have them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "differ/absence_type.h"
#include "wire/api_body.h"

enum {
    MOST_MEMBERS = 256, /* of a request */
    LEAST_STARS = 4     /* in a row, for what is left of a header's value (LEAST_CUT of redact_values.c) */
};

struct rules {
    const cJSON *base, *side; /* manifests */
    bool replayed;            /* the side is a replay of the baseline */
    bool overwritten;         /* by rules of either, beside the values of headers */
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Does the star at `at` stand for any character? By a rule each may; else only those of a header's value,
 * which is overwritten wherever a request has it. */
static bool is_hidden(const char *text, const char *at, bool overwritten)
{
    const char *from = at, *to = at;

    if (*at != '*' || overwritten)
        return *at == '*';
    while (from > text && from[-1] == '*' && at - from < LEAST_STARS)
        from--;
    while (*to == '*' && to - at < LEAST_STARS)
        to++;
    return to - from >= LEAST_STARS;
}

/* What is overwritten keeps its length. */
static bool same_text(const char *a, const char *b, bool overwritten)
{
    const char *x = a, *y = b;

    for (; *x && *y; x++, y++)
        if (*x != *y && !is_hidden(a, x, overwritten) && !is_hidden(b, y, overwritten))
            return false;
    return *x == *y;
}

/* Of a number that is overwritten all digits are 1. */
static bool is_ones(double x)
{
    char digits[40];

    snprintf(digits, sizeof digits, "%.17g", x);
    return digits[strspn(digits, "1.-")] == '\0';
}

static bool same_json(const cJSON *a, const cJSON *b, bool overwritten);

/* Members or elements, in one order: a replay keeps it. */
static bool same_children(const cJSON *a, const cJSON *b, bool overwritten)
{
    a = a->child;
    b = b->child;
    for (; a && b; a = a->next, b = b->next)
        if ((a->string && b->string && !same_text(a->string, b->string, overwritten)) ||
            !same_json(a, b, overwritten))
            return false;
    return !a && !b;
}

static bool same_json(const cJSON *a, const cJSON *b, bool overwritten)
{
    if (overwritten && (cJSON_IsNull(a) || cJSON_IsNull(b)))
        return true;
    if ((a->type & 0xFF) != (b->type & 0xFF))
        return false;
    if (cJSON_IsString(a))
        return same_text(a->valuestring, b->valuestring, overwritten);
    if (cJSON_IsNumber(a))
        return a->valuedouble == b->valuedouble ||
               (overwritten && (is_ones(a->valuedouble) || is_ones(b->valuedouble)));
    return same_children(a, b, overwritten);
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list;
}

/* Members that decide an answer. */
static bool decides(const char *name)
{
    static const char *const NAMES[] = {"prompt", "messages", "text", "input_ids", "token_ids", "max_tokens", "n_predict",
                                        "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "ignore_eos", "stop", NULL};

    return is_in(name, NAMES);
}

/* Members that differ from run to run, or that a server was asked without. */
static bool may_differ(const char *name)
{
    static const char *const NAMES[] = {"model", "seed", "stream", NULL};
    int f;

    for (f = 0; f < TD_N_FIELDS; f++)
        if (!strcmp(td_api_field_name((enum td_api_field)f), name))
            return true;
    return is_in(name, NAMES);
}

static bool is_compared(const struct rules *r, const char *name)
{
    return r->replayed ? !may_differ(name) : decides(name);
}

/* The name of a member that tells the requests apart; NULL: there is none. */
static const char *other_member(const struct rules *r, const cJSON *a, const cJSON *b)
{
    const bool whole = r->replayed && !r->overwritten;
    const cJSON *m, *other;

    if (cJSON_GetArraySize(a) > MOST_MEMBERS || cJSON_GetArraySize(b) > MOST_MEMBERS)
        return "more members than are compared";
    cJSON_ArrayForEach(m, a) {
        other = is_compared(r, m->string) ? td_json_get(b, m->string) : NULL;
        if (other ? !same_json(m, other, r->overwritten) && (whole || (m->type & 0xFF) == (other->type & 0xFF))
                  : whole && is_compared(r, m->string))
            return m->string;
    }
    cJSON_ArrayForEach(m, b)
        if (whole && is_compared(r, m->string) && !td_json_get(a, m->string))
            return m->string;
    return NULL;
}

/* The model by the name of the recording. */
static const char *model_of(const cJSON *manifest, const struct td_exchange *x, bool overwritten)
{
    const cJSON *replay = td_json_get(manifest, "replay");
    const char *model = td_json_get_str(x->request, "model", "");

    if (*model && same_text(model, td_json_get_str(replay, "served_as", ""), overwritten))
        return td_json_get_str(replay, "recorded_model", model);
    return model;
}

/* What was asked otherwise; NULL: nothing. */
static const char *asked_otherwise(const struct rules *r, const struct td_exchange *base, const struct td_exchange *x)
{
    if (!base->request)
        return NULL;
    if (!x->request)
        return r->replayed ? "the request is not kept" : NULL;
    if (r->replayed && !same_text(model_of(r->base, base, r->overwritten), model_of(r->side, x, r->overwritten), r->overwritten))
        return "model";
    if (r->replayed && !r->overwritten && base->path && !same_text(base->path, x->path ? x->path : "", false))
        return "path";
    if (r->replayed && base->method && x->method && strcmp(base->method, x->method) != 0)
        return "method";
    return other_member(r, base->request, x->request);
}

static bool overwrites(const cJSON *manifest)
{
    const cJSON *rules = td_json_get(manifest, "redaction");

    return td_json_get_bool(rules, "no_text", false) ||
           cJSON_GetArraySize(td_json_get(rules, "json_paths")) > 0;
}

void td_count_asked(const struct td_comparison *c, const struct td_side *side,
                    const struct td_planned *p, struct td_absence_count *out)
{
    struct rules r = {.base = td_fixture_manifest(c->side[0].fx), .side = td_fixture_manifest(side->fx)};
    const char *first = NULL, *prompt = "";
    size_t i, j;

    (void)p;
    r.replayed = *td_json_get_str(td_json_get(r.side, "replay"), "of", "");
    r.overwritten = overwrites(r.base) || overwrites(r.side);
    for (i = 0; i < c->groups.n; i++) {
        const struct td_prompt_group *g = &c->groups.group[i];

        for (j = 0; j < g->n[side->role]; j++) {
            const struct td_xref *x = &g->by_role[side->role][j];
            const struct td_exchange *base = td_groups_counterpart(g, x->x);
            const char *other;

            if (x->round != side->round || x->x->error || !base)
                continue;
            other = asked_otherwise(&r, base, x->x);
            out->planned++;
            out->seen += !other;
            prompt = other && !first ? g->prompt_id : prompt;
            first = first ? first : other;
        }
    }
    snprintf(out->say, sizeof out->say,
             "for %lld of %lld answers something else was asked than of the baseline (first: %.80s: %.80s)",
             (long long)(out->planned - out->seen), (long long)out->planned, prompt, first ? first : "");
}
