/* request_plan.c - choose which requests of a recording are sent again, and with which bodies.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/request_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/out_of_memory.h"
#include "format/planned.h"

#define MAX_REPEATS 10000

/* ---- length ---------------------------------------------------------------------------------- */

/* Tokens of context that this exchange needs; 0: the length of its prompt is not known. */
static int64_t context_needed(const struct td_exchange *x, bool max_counts)
{
    int64_t prompt = x->usage.prompt_tokens > 0 ? x->usage.prompt_tokens : x->n_prompt_ids, answer = x->n_tokens, max;

    if (x->error_kind || x->phase == TD_PHASE_WARMUP || prompt <= 0)
        return 0;
    max = max_counts ? td_json_get_i64(x->request, "max_tokens", 0) : 0;
    return prompt + (max > answer ? max : answer);
}

int td_request_plan_check_context(const struct td_exchange *xs, size_t n,
                                  const struct td_api_server *server, struct td_error *err)
{
    const struct td_exchange *longest = NULL;
    int64_t most = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        int64_t l = context_needed(&xs[i], server->kind == TD_API_VLLM);

        if (l > most) {
            most = l;
            longest = &xs[i];
        }
    }
    if (!longest || server->max_model_len <= 0 || most <= server->max_model_len)
        return TD_OK;
    return td_fail(err, TD_EINVAL,
                   "these must not be compared: the recording needs a context of %lld tokens "
                   "(prompt %s), but %s gives a "
                   "request %lld; start it with a longer one",
                   (long long)most, longest->prompt_id ? longest->prompt_id : "?", server->url,
                   (long long)server->max_model_len);
}

/* ---- redacted prompts ------------------------------------------------------------------------ */

static bool names_prompt(const char *path)
{
    return strstr(path, "prompt") || strstr(path, "messages") || strstr(path, "content") || strstr(path, "text");
}

/* Do the recorded bodies lack the prompts? */
static bool prompts_redacted(const cJSON *manifest)
{
    const cJSON *r = td_json_get(manifest, "redaction"), *p;

    if (td_json_get_bool(r, "no_text", false))
        return true;
    cJSON_ArrayForEach(p, td_json_get(r, "json_paths"))
        if (cJSON_IsString(p) && names_prompt(p->valuestring))
            return true;
    return false;
}

static cJSON *id_array(const struct td_exchange *x)
{
    return cJSON_CreateIntArray(x->prompt_ids, x->n_prompt_ids);
}

/* Is a part of a request, other than its prompt, overwritten? Then the server would be asked for something else. */
static bool has_overwritten_part(const cJSON *v)
{
    const char *texts[] = {v->string, cJSON_IsString(v) ? v->valuestring : NULL};
    const cJSON *m;
    size_t i;

    for (i = 0; i < 2; i++)
        if (texts[i] && *texts[i] && !texts[i][strspn(texts[i], "*")])
            return true;
    cJSON_ArrayForEach(m, v)
        if (has_overwritten_part(m))
            return true;
    return false;
}

/* Make a body with the prompt's token ids in place of its text. The ids are those after the chat
 * template, so a chat is asked as a plain completion, at another path. Body and *path are the
 * caller's; NULL: no ids were recorded, or other parts are overwritten. */
static cJSON *make_body_by_ids(const struct td_exchange *x, char **path)
{
    cJSON *body = x->prompt_ids ? cJSON_Duplicate(x->request, true) : NULL;
    char *chat = x->path ? strstr(x->path, "/chat/completions") : NULL;
    const char *prompt = td_json_get(body, "text") ? "input_ids" : "prompt"; /* SGLang's generate has a text */

    if (!body)
        return NULL;
    *path = td_strdup(x->path ? x->path : "");
    if (chat && *path)
        strcpy(*path + (chat - x->path), "/completions");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "messages");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "text");
    cJSON_DeleteItemFromObjectCaseSensitive(body, "prompt");
    if (has_overwritten_part(body)) {
        cJSON_Delete(body);
        free(*path);
        *path = NULL;
        return NULL;
    }
    cJSON_AddItemToObject(body, prompt, id_array(x));
    if (chat) { /* /v1/completions wants a number where /v1/chat/completions wants a switch and a number */
        int64_t top = td_json_get_i64(body, "top_logprobs", 0);

        cJSON_DeleteItemFromObjectCaseSensitive(body, "top_logprobs");
        cJSON_DeleteItemFromObjectCaseSensitive(body, "logprobs");
        if (top > 0)
            cJSON_AddNumberToObject(body, "logprobs", (double)top);
    }
    return body;
}

/* ---- repeats --------------------------------------------------------------------------------- */

static int32_t count_repeats(const struct td_exchange *xs, size_t n, enum td_phase phase)
{
    int32_t most = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (xs[i].phase == phase && xs[i].repeat >= most)
            most = xs[i].repeat + 1;
    return most;
}

/* When this request was meant to be sent; of one that waited for others, when it was. */
static int64_t intended_ns(const struct td_exchange *x)
{
    const int64_t due = td_json_get_i64(x->extra, "due_ns", 0);

    return due > 0 && x->t_sent_ns ? due : x->t_sent_ns;
}

/* How long the recorded repeats of this phase took together. When they start over, they do so that
 * much later. */
static int64_t recorded_span_ns(const struct td_exchange *xs, size_t n, enum td_phase phase)
{
    int64_t first = INT64_MAX, last = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (xs[i].phase == phase && xs[i].t_sent_ns) {
            first = xs[i].t_sent_ns < first ? xs[i].t_sent_ns : first;
            last = xs[i].t_end_ns > last ? xs[i].t_end_ns : last;
        }
    return last > first ? last - first : 0;
}

struct copies { struct td_exchange *xs; size_t n; bool own_bodies; };

static void release_copies(struct copies *c)
{
    size_t i;

    for (i = 0; c->own_bodies && i < c->n; i++) {
        cJSON_Delete(c->xs[i].request);
        free(c->xs[i].path);
    }
    free(c->xs);
}

/* Shallow copies of the exchanges to send, one per repeat wanted. */
static int make_copies(const struct td_exchange *xs, size_t n, enum td_phase phase, int64_t repeat, int64_t starts, bool by_ids, struct copies *c,
                       struct td_request_plan_counts *counts, struct td_error *err)
{
    int64_t have = count_repeats(xs, n, phase), want = repeat > 0 ? repeat : have / starts, lap,
            laps = have ? (want + have - 1) / have : 0;
    int64_t span = recorded_span_ns(xs, n, phase);
    size_t i;

    if (want > MAX_REPEATS)
        return td_fail(err, TD_EINVAL, "--repeat: more than %d", MAX_REPEATS);
    c->own_bodies = by_ids;
    c->xs = calloc(n * (size_t)laps + 1, sizeof *c->xs);
    if (!c->xs)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu requests", n * (size_t)laps);
    for (lap = 0; lap < laps; lap++)
        for (i = 0; i < n; i++) {
            struct td_exchange x = xs[i];

            if (x.phase != phase || lap * have + x.repeat >= want)
                continue;
            if ((!x.request && x.error) || td_exchange_unseen(&x)) {
                counts->never_sent++;
                continue;
            }
            x.repeat += (int32_t)(lap * have);
            x.stream += (uint32_t)(lap * (int64_t)n); /* the order of sending */
            x.t_sent_ns = intended_ns(&x);
            x.t_sent_ns += x.t_sent_ns ? lap * span : 0;
            x.t_end_ns += lap * span;
            x.phase = TD_PHASE_TIMED;
            if (by_ids)
                x.request = make_body_by_ids(&xs[i], &x.path);
            if (by_ids && !x.request) {
                counts->skipped++;
                continue;
            }
            c->xs[c->n++] = x;
        }
    return TD_OK;
}

int td_request_plan_make(const struct td_exchange *xs, size_t n, const cJSON *manifest,
                         int64_t repeat, double speed, struct td_plan *plan,
                         struct td_request_plan_counts *counts, struct td_error *err)
{
    enum td_phase phase = count_repeats(xs, n, TD_PHASE_TIMED) ? TD_PHASE_TIMED : TD_PHASE_TAPPED;
    struct copies c = {0};
    size_t skipped = 0;
    int rc;

    counts->recorded = (int64_t)n;
    counts->by_token_ids = prompts_redacted(manifest);
    rc = make_copies(xs, n, phase, repeat, phase == TD_PHASE_TIMED ? td_planned_starts(manifest) : 1, counts->by_token_ids, &c, counts, err);
    if (!rc)
        rc = td_plan_from_exchanges(c.xs, c.n, 1u << TD_PHASE_TIMED, speed, plan, &skipped, err);
    counts->skipped += (int64_t)skipped;
    counts->planned = (int64_t)plan->n;
    release_copies(&c);
    return rc;
}
