/* align.c - open the fixtures of a comparison, check that they may be compared, and put the answers
 * to each prompt side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/align.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/fixture_check.h"
#include "format/redact.h"
#include "wire/send.h"

const char *td_role_key(enum td_role role)
{
    static const char *const KEYS[TD_N_ROLES] = {"baseline", "baseline-live", "candidate",
                                                 "calibrate"};

    return KEYS[role];
}

/* What is overwritten is all stars: a rule may match nothing. */
bool td_side_masks(const struct td_side *side, const struct td_exchange *x)
{
    size_t i = 0;

    if (side->no_text || !side->may_mask)
        return side->no_text;
    while (i < x->text_len && x->text[i] == '*')
        i++;
    return x->text_len && i == x->text_len;
}

int td_side_open(const char *dir, enum td_role role, int round, struct td_side *out,
                 struct td_error *err)
{
    const cJSON *rules, *path;
    int rc;

    memset(out, 0, sizeof *out);
    out->role = role;
    out->round = round;
    rc = td_fixture_open(dir, &out->fx, err);
    if (rc)
        return rc;
    rules = td_json_get(td_fixture_manifest(out->fx), "redaction");
    out->no_text = td_json_get_bool(rules, "no_text", false);
    cJSON_ArrayForEach(path, td_json_get(rules, "json_paths"))
        out->may_mask |= cJSON_IsString(path) && td_redact_reaches_text(path->valuestring);
    return TD_OK;
}

int td_side_check(const struct td_side *s, struct td_error *err)
{
    return td_fixture_check(s->fx, TD_FILES_JUDGED, err);
}

void td_side_close(struct td_side *s)
{
    td_exchanges_free(s->xs, s->n_xs);
    free(s->place);
    td_fixture_close(s->fx);
    memset(s, 0, sizeof *s);
}

/* ---- may they be compared? ------------------------------------------------------------------- */

/* The value as JSON on one line, which the caller frees; NULL: out of memory. */
static char *compact_json(const cJSON *v)
{
    struct td_buf b = TD_BUF_INIT(4096);
    struct td_jw w;

    td_jw_init(&w, &b, false);
    td_jw_value(&w, NULL, v);
    return b.failed ? (td_buf_release(&b), NULL) : td_buf_detach(&b, NULL);
}

static int fail_for_difference(const char *what, const cJSON *a, const char *a_name, const cJSON *b,
                               const char *b_name, struct td_error *err)
{
    char *sa = compact_json(a), *sb = compact_json(b);

    td_fail(err, TD_EINVAL, "these must not be compared: %s is %s in %s, but %s in %s", what,
            sa ? sa : "?", a_name, sb ? sb : "?", b_name);
    free(sa);
    free(sb);
    return TD_EINVAL;
}

static bool same_value(const cJSON *a, const cJSON *b)
{
    return cJSON_IsNumber(a) && cJSON_IsNumber(b) ? a->valuedouble == b->valuedouble
                                                  : cJSON_Compare(a, b, true);
}

/* The model by the name of the recording: a replay on a server that has another name for it says
 * so. NULL: not stated. */
static const cJSON *recorded_model(const cJSON *manifest)
{
    const cJSON *server = td_json_get(manifest, "server"), *replay = td_json_get(manifest, "replay");
    const char *served_as = td_json_get_str(replay, "served_as", ""),
               *model = td_json_get_str(server, "model", "");

    if (*served_as && strcmp(served_as, model) == 0 && td_json_get(replay, "recorded_model"))
        return td_json_get(replay, "recorded_model");
    return td_json_get(server, "model");
}

/* Is that the id of a fixture, or of one that it was made from, or that it is a replay of? */
static bool stems_from(const cJSON *fixture, const char *id)
{
    const cJSON *part;
    const char *const ids[] = {td_json_get_str(fixture, "id", ""), td_json_get_str(td_json_get(fixture, "replay"), "of", ""),
                               td_json_get_str(td_json_get(fixture, "redacted"), "from", ""),
                               td_json_get_str(td_json_get(fixture, "extract"), "of", "")};
    size_t i;

    for (i = 0; i < sizeof ids / sizeof *ids; i++)
        if (!strcmp(ids[i], id))
            return true;
    cJSON_ArrayForEach(part, td_json_get(td_json_get(fixture, "merge"), "from"))
        if (!strcmp(td_json_get_str(part, "id", ""), id))
            return true;
    return false;
}

int td_align_check_origin(const cJSON *base, const char *base_name, const cJSON *replay, const char *name, struct td_error *err)
{
    const char *of = td_json_get_str(td_json_get(replay, "replay"), "of", "");

    if (!*of || stems_from(base, of))
        return TD_OK;
    return td_fail(err, TD_EINVAL,
                   "these must not be compared: %s is a replay of the fixture %.32s, and %s is %.32s; was it replaced since?", name,
                   of, base_name, td_json_get_str(base, "id", "without an id"));
}

int td_align_check(const cJSON *base, const char *base_name, const cJSON *other,
                   const char *other_name, struct td_error *err)
{
    const cJSON *a, *b;

    a = recorded_model(base);
    b = recorded_model(other);
    if (cJSON_IsString(a) && cJSON_IsString(b) && *a->valuestring && *b->valuestring &&
        !same_value(a, b))
        return fail_for_difference("the model (server.model)", a, base_name, b, other_name, err);
    a = td_json_get(td_json_get(base, "server"), "model_meta");
    b = td_json_get(td_json_get(other, "server"), "model_meta");
    if (cJSON_IsString(a) && cJSON_IsString(b) && !same_value(a, b))
        return fail_for_difference("the model's content (server.model_meta)", a, base_name, b,
                                   other_name, err);
    cJSON_ArrayForEach(a, td_json_get(base, "sampling")) {
        char what[96];

        b = td_json_get(td_json_get(other, "sampling"), a->string);
        if (!b || same_value(a, b))
            continue;
        snprintf(what, sizeof what, "sampling.%.70s", a->string);
        return fail_for_difference(what, a, base_name, b, other_name, err);
    }
    a = td_json_get(td_json_get(base, "suite"), "hash");
    b = td_json_get(td_json_get(other, "suite"), "hash");
    if (cJSON_IsString(a) && cJSON_IsString(b) && *a->valuestring && *b->valuestring &&
        !same_value(a, b))
        return fail_for_difference("the suite of prompts (suite.hash)", a, base_name, b, other_name,
                                   err);
    return TD_OK;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int by_prompt(const void *a, const void *b)
{
    const struct td_xref *p = a, *q = b;
    int c = strcmp(p->x->prompt_id ? p->x->prompt_id : "", q->x->prompt_id ? q->x->prompt_id : "");

    if (c == 0)
        c = (int)p->role - (int)q->role;
    if (c == 0)
        c = p->round - q->round;
    if (c == 0)
        c = (int)p->x->phase - (int)q->x->phase;
    if (c == 0)
        c = (p->x->repeat > q->x->repeat) - (p->x->repeat < q->x->repeat);
    if (c == 0)
        c = (p->x->stream > q->x->stream) - (p->x->stream < q->x->stream);
    return c;
}

/* Groups stand in the order of their first answers; a group with answers of a lower role comes
 * first. */
static int by_first_answer(const void *a, const void *b)
{
    const struct td_prompt_group *p = a, *q = b;
    int r;

    for (r = 0; r < TD_N_ROLES; r++) {
        if (p->n[r] && q->n[r]) {
            uint32_t s = p->by_role[r][0].x->stream, t = q->by_role[r][0].x->stream;

            return (s > t) - (s < t);
        }
        if (p->n[r] || q->n[r])
            return p->n[r] ? -1 : 1;
    }
    return 0;
}

/* Each answer to a prompt is compared with each of the baseline's, token by token. A small file can hold so
 * many answers to one prompt that this takes for ever. */
static int check_work(const struct td_groups *out, struct td_error *err)
{
    uint64_t work = 0;
    size_t i, j;
    int r;

    for (i = 0; i < out->n; i++) {
        const struct td_prompt_group *g = &out->group[i];
        uint64_t answers = 0, tokens = 1;

        for (r = 0; r < TD_N_ROLES; r++)
            for (j = 0; j < g->n[r]; j++, answers++)
                if (g->by_role[r][j].x->n_tokens > (int64_t)tokens)
                    tokens = (uint64_t)g->by_role[r][j].x->n_tokens;
        if (g->n[TD_BASE] * answers > (TD_ALIGN_WORK - work) / tokens)
            return td_fail(err, TD_ELIMIT, "%llu answers to the prompt \"%.100s\", of up to %llu tokens: comparing each with each of "
                           "the baseline's takes too long; record fewer repeats (-k), or judge fewer prompts",
                           (unsigned long long)answers, g->prompt_id, (unsigned long long)tokens);
        work += g->n[TD_BASE] * answers * tokens;
    }
    return TD_OK;
}

int td_align_exchanges(const struct td_side *sides, size_t n_sides, struct td_groups *out,
                       struct td_error *err)
{
    size_t i, j, n = 0, total = 0;
    int rc;

    memset(out, 0, sizeof *out);
    for (i = 0; i < n_sides; i++)
        total += sides[i].n_xs;
    out->xrefs = calloc(total + 1, sizeof *out->xrefs);
    out->group = calloc(total + 1, sizeof *out->group);
    if (!out->xrefs || !out->group) {
        td_groups_release(out);
        return td_fail(err, TD_ENOMEM, "no memory to align %zu exchanges", total);
    }
    for (i = 0; i < n_sides; i++)
        for (j = 0; j < sides[i].n_xs; j++) {
            const struct td_exchange *x = &sides[i].xs[j];

            out->candidate_reached |= sides[i].role == TD_NEW &&
                                      (!x->error_kind || strcmp(x->error_kind, "connect") != 0);
            if (x->phase != TD_PHASE_WARMUP && !td_send_was_stopped(x) && !td_exchange_unseen(x))
                out->xrefs[n++] = (struct td_xref){x, sides[i].role, sides[i].round, td_side_masks(&sides[i], x)};
        }
    qsort(out->xrefs, n, sizeof *out->xrefs, by_prompt);
    for (i = 0; i < n; i++) {
        struct td_xref *x = &out->xrefs[i];
        const char *id = x->x->prompt_id ? x->x->prompt_id : "";
        struct td_prompt_group *g = out->n ? &out->group[out->n - 1] : NULL;

        if (!g || strcmp(g->prompt_id, id) != 0) {
            g = &out->group[out->n++];
            g->prompt_id = id;
            g->category = x->x->category ? x->x->category : "";
        }
        if (g->n[x->role]++ == 0)
            g->by_role[x->role] = x;
    }
    rc = check_work(out, err);
    if (rc) {
        td_groups_release(out);
        return rc;
    }
    qsort(out->group, out->n, sizeof *out->group, by_first_answer);
    return TD_OK;
}

int td_groups_of_first_rounds(const struct td_groups *g, struct td_groups *out, struct td_error *err)
{
    static const enum td_role LIVE[] = {TD_LIVE, TD_NEW};

    *out = (struct td_groups){calloc(g->n + 1, sizeof *out->group), g->n, NULL, g->candidate_reached};
    if (!out->group)
        return td_fail(err, TD_ENOMEM, "no memory for %zu prompts", g->n);
    for (size_t i = 0; i < g->n; i++) {
        out->group[i] = g->group[i];
        for (size_t r = 0; r < sizeof LIVE / sizeof *LIVE; r++) {
            size_t *n = &out->group[i].n[LIVE[r]];

            while (*n && g->group[i].by_role[LIVE[r]][*n - 1].round >= TD_ANSWER_ROUNDS)
                --*n;
        }
    }
    return TD_OK;
}

void td_groups_release(struct td_groups *g)
{
    free(g->group);
    free(g->xrefs);
    memset(g, 0, sizeof *g);
}

const struct td_exchange *td_groups_counterpart(const struct td_prompt_group *g,
                                                const struct td_exchange *x)
{
    const struct td_exchange *same_repeat = NULL;
    size_t i;

    for (i = 0; i < g->n[TD_BASE]; i++) {
        const struct td_exchange *b = g->by_role[TD_BASE][i].x;

        if (b->repeat == x->repeat && b->phase == x->phase)
            return b;
        if (b->repeat == x->repeat && !same_repeat)
            same_repeat = b;
    }
    if (!same_repeat && g->n[TD_BASE])
        same_repeat = g->by_role[TD_BASE][0].x;
    return same_repeat;
}
