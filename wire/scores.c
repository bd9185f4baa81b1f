/* scores.c - collect texts to be scored, and have a server score them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/scores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/out_of_memory.h"
#include "wire/api_body.h"
#include "wire/collapse.h"

#define MAX_BODY ((size_t)16 << 20)

bool td_scores_role(const struct td_exchange *x)
{
    return !strcmp(td_json_get_str(x->extra, "role", ""), TD_SCORES_ROLE);
}

enum td_scored td_scores_outcome(const struct td_exchange *x)
{
    static const int refusals[] = {400, 404, 405, 422, 501};
    size_t i;

    if (td_collapse_error_names_nan(x->error))
        return TD_SCORED_NAN;
    if (td_exchange_unseen(x))
        return TD_SCORED_UNSEEN;
    if (!x->error)
        return x->n_scores ? TD_SCORED : TD_SCORED_REFUSED;
    for (i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (x->http_status == refusals[i])
            return TD_SCORED_REFUSED;
    return TD_SCORED_FAILED;
}

/* ---- texts ---------------------------------------------------------------------------------------------------------- */

void td_scores_init(struct td_scores *s, int64_t max_texts)
{
    *s = (struct td_scores){.max_texts = max_texts};
}

static void text_release(struct td_scores_text *t)
{
    free(t->prompt_id);
    free(t->category);
    free(t->ids);
}

void td_scores_release(struct td_scores *s)
{
    while (s->n)
        text_release(&s->text[--s->n]);
    free(s->text);
    *s = (struct td_scores){0};
}

static bool has_text_of(const struct td_scores *s, const char *prompt_id)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        if (!strcmp(s->text[i].prompt_id, prompt_id))
            return true;
    return false;
}

/* Join prompt and answer of x into a text. */
static int make_text(const struct td_exchange *x, struct td_scores_text *t, struct td_error *err)
{
    int32_t room = TD_SCORES_MAX_TOKENS - x->n_prompt_ids, answer = x->n_tokens < room ? x->n_tokens : room;

    *t = (struct td_scores_text){.prompt_id = td_strdup(x->prompt_id ? x->prompt_id : ""),
                                 .category = td_strdup(x->category ? x->category : ""),
                                 .n = x->n_prompt_ids + answer,
                                 .from = x->n_prompt_ids};
    t->ids = malloc((size_t)t->n * sizeof *t->ids);
    if (!t->prompt_id || !t->category || !t->ids) {
        text_release(t);
        return td_fail(err, TD_ENOMEM, "out of memory for a text of %d tokens", t->n);
    }
    memcpy(t->ids, x->prompt_ids, (size_t)x->n_prompt_ids * sizeof *t->ids);
    memcpy(t->ids + x->n_prompt_ids, x->token_ids, (size_t)answer * sizeof *t->ids);
    return TD_OK;
}

static int add_text(struct td_scores *s, const struct td_exchange *x, struct td_error *err)
{
    int rc = td_array_grow(&s->text, s->n, &s->cap, sizeof *s->text, SIZE_MAX);

    if (rc)
        return td_fail(err, rc, "out of memory for %zu texts", s->n + 1);
    rc = make_text(x, &s->text[s->n], err);
    s->n += !rc;
    return rc;
}

static void count_outcome(struct td_scores *s, const struct td_exchange *x)
{
    enum td_scored o = td_scores_outcome(x);

    s->count[o]++;
    if (o != TD_SCORED && !*s->why)
        snprintf(s->why, sizeof s->why, "%.190s",
                 x->error ? x->error : "accepted, but not answered");
}

int td_scores_add(struct td_scores *s, const struct td_exchange *x, struct td_error *err)
{
    if (td_scores_role(x)) {
        count_outcome(s, x);
        return TD_OK;
    }
    if (x->error || x->phase != TD_PHASE_TIMED || x->n_tokens < 1 ||
        (int64_t)s->n >= s->max_texts || has_text_of(s, x->prompt_id ? x->prompt_id : ""))
        return TD_OK;
    if (!x->prompt_ids || !x->token_ids || !x->ids_complete) {
        s->without_ids += x->repeat == 0;
        return TD_OK;
    }
    if (x->n_prompt_ids >= TD_SCORES_MAX_TOKENS) {
        s->too_long += x->repeat == 0;
        return TD_OK;
    }
    return add_text(s, x, err);
}

/* ---- bodies --------------------------------------------------------------------------------------------------------- */

bool td_scores_offered(const struct td_api_server *server)
{
    return server->kind == TD_API_VLLM || server->kind == TD_API_SGLANG;
}

static void put_greedy_params(struct td_jw *w)
{
    td_jw_num(w, "temperature", 0);
    td_jw_num(w, "top_p", 1);
    td_jw_i64(w, "top_k", -1);
    td_jw_num(w, "min_p", 0);
    td_jw_num(w, "presence_penalty", 0);
    td_jw_num(w, "frequency_penalty", 0);
    td_jw_num(w, "repetition_penalty", 1);
}

/* vLLM uses no cached prefix for such a request; the salt keeps it from leaving one for others. */
static void put_vllm(struct td_jw *w, const struct td_api_server *server, const int32_t *ids, int32_t n)
{
    td_jw_cstr(w, "model", server->model);
    td_jw_i32s(w, "prompt", ids, n);
    td_jw_i64(w, "max_tokens", 1);
    put_greedy_params(w);
    td_jw_i64(w, "seed", 0);
    td_jw_bool(w, "stream", false);
    td_jw_i64(w, "prompt_logprobs", 1);
    if (!(server->without >> TD_FIELD_TOKEN_IDS & 1))
        td_jw_bool(w, td_api_field_name(TD_FIELD_TOKEN_IDS), true);
    if (!(server->without >> TD_FIELD_SALT & 1))
        td_jw_cstr(w, td_api_field_name(TD_FIELD_SALT), "td-0000000000000000");
}

static void put_sglang(struct td_jw *w, const int32_t *ids, int32_t n)
{
    td_jw_i32s(w, "input_ids", ids, n);
    td_jw_obj(w, "sampling_params");
    td_jw_i64(w, "max_new_tokens", 1);
    put_greedy_params(w);
    td_jw_end(w);
    td_jw_bool(w, "return_logprob", true);
    td_jw_i64(w, "logprob_start_len", 0);
    td_jw_i64(w, "top_logprobs_num", 1);
    td_jw_bool(w, "stream", false);
}

/* ---- plans ---------------------------------------------------------------------------------------------------------- */

static int plan_text(const struct td_scores_text *t, const struct td_api_server *server,
                     int32_t pass, int64_t group, struct td_plan *plan, struct td_error *err)
{
    bool vllm = server->kind == TD_API_VLLM;
    int64_t room = server->max_model_len - 1;
    int32_t n = server->max_model_len > 0 && t->n > room ? (int32_t)room : t->n;
    char path_vllm[] = "/v1/completions", path_sglang[] = "/generate", role[] = TD_SCORES_ROLE;
    struct td_buf body = TD_BUF_INIT(MAX_BODY);
    struct td_plan_item it = {.prompt_id = t->prompt_id,
                              .category = t->category,
                              .path = vllm ? path_vllm : path_sglang,
                              .role = role,
                              .repeat = pass,
                              .concurrency = pass ? TD_SCORES_TOGETHER : 1,
                              .scored_from = t->from,
                              .phase = TD_PHASE_WARMUP,
                              .group = group,
                              .at_ns = -1};
    struct td_jw w;
    int rc;

    td_jw_init(&w, &body, false);
    td_jw_obj(&w, NULL);
    if (vllm)
        put_vllm(&w, server, t->ids, n);
    else
        put_sglang(&w, t->ids, n);
    td_jw_end(&w);
    it.body = body.data;
    it.body_len = body.len;
    rc = body.failed ? td_fail(err, TD_ENOMEM, "out of memory for a request") : td_plan_add(plan, &it, err);
    td_buf_release(&body);
    return rc;
}

int td_scores_ask(struct td_scores *s, const struct td_api_server *server, td_scores_send_fn *send,
                  void *arg, struct td_error *err)
{
    struct td_plan plan = TD_PLAN_INIT;
    int64_t group = 0;
    int32_t pass;
    size_t i;
    int rc = TD_OK;

    for (pass = 0; pass < TD_SCORES_PASSES && td_scores_offered(server); pass++)
        for (i = 0; i < s->n && !rc; i++) {
            group += !pass || i % TD_SCORES_TOGETHER == 0;
            rc = plan_text(&s->text[i], server, pass, group, &plan, err);
        }
    if (!rc)
        rc = td_scores_send(s, &plan, send, arg, err);
    td_plan_release(&plan);
    return rc;
}

int td_scores_send(struct td_scores *s, const struct td_plan *plan, td_scores_send_fn *send, void *arg, struct td_error *err)
{
    struct td_plan first = {plan->items, plan->n > 0, 0}, rest = {plan->items + first.n, plan->n - first.n, 0};
    int rc = first.n ? send(arg, &first, err) : TD_OK;

    return rc || !rest.n || s->count[TD_SCORED_REFUSED] ? rc : send(arg, &rest, err);
}

static int by_stream(const void *a, const void *b)
{
    const struct td_exchange *x = *(struct td_exchange *const *)a, *y = *(struct td_exchange *const *)b;

    return x->stream < y->stream ? -1 : x->stream > y->stream;
}

/* Plan the request of x again, with the ids of prompt_ids: redaction does not touch those. */
static int plan_text_again(const struct td_exchange *x, struct td_plan *plan, struct td_error *err)
{
    const char *key = td_json_get(x->request, "input_ids") ? "input_ids" : "prompt";
    cJSON *body = cJSON_Duplicate(x->request, true), *ids = cJSON_CreateIntArray(x->prompt_ids, x->n_prompt_ids);
    struct td_buf text = TD_BUF_INIT(MAX_BODY);
    char role[] = TD_SCORES_ROLE;
    struct td_plan_item it = {.prompt_id = x->prompt_id,
                              .category = x->category,
                              .api = x->api,
                              .method = x->method,
                              .path = x->path,
                              .role = role,
                              .repeat = x->repeat,
                              .concurrency = x->concurrency,
                              .scored_from = x->scored_from,
                              .phase = TD_PHASE_WARMUP,
                              .group = td_json_get_i64(x->extra, "group", td_plan_next_group(plan)),
                              .at_ns = -1};
    struct td_jw w;
    int rc;

    cJSON_DeleteItemFromObjectCaseSensitive(body, key);
    cJSON_AddItemToObject(body, key, ids);
    td_jw_init(&w, &text, false);
    td_jw_value(&w, NULL, body);
    it.body = text.data;
    it.body_len = text.len;
    rc = text.failed ? td_fail(err, TD_ENOMEM, "out of memory for a request") : td_plan_add(plan, &it, err);
    td_buf_release(&text);
    cJSON_Delete(body);
    return rc;
}

int td_scores_plan_again(const struct td_exchange *xs, size_t n, struct td_plan *plan, struct td_error *err)
{
    const struct td_exchange **order = malloc((n + 1) * sizeof *order);
    size_t i, m = 0;
    int rc = TD_OK;

    if (!order)
        return td_fail(err, TD_ENOMEM, "out of memory for %zu exchanges", n);
    for (i = 0; i < n; i++)
        if (td_scores_role(&xs[i]) && td_scores_outcome(&xs[i]) == TD_SCORED && xs[i].request)
            order[m++] = &xs[i];
    qsort(order, m, sizeof *order, by_stream);
    for (i = 0; i < m && !rc; i++)
        rc = plan_text_again(order[i], plan, err);
    free(order);
    return rc;
}

/* ---- outcome --------------------------------------------------------------------------------- */

void td_scores_extra(const struct td_scores *s, const struct td_api_server *server, struct td_extras *e)
{
    char why[200] = "";

    if (!s->max_texts)
        return;
    if (!td_scores_offered(server))
        td_extras_set(
            e, "prompt_logprobs", "no",
            "this API does not offer them: answers are compared up to their first fork only");
    else if (s->count[TD_SCORED_REFUSED])
        td_extras_set(e, "prompt_logprobs", "refused", s->why);
    else if (s->count[TD_SCORED]) {
        if (*s->why)
            snprintf(why, sizeof why, "not in all answers: %.150s", s->why);
        else if (s->too_long)
            snprintf(why, sizeof why, "not of %lld prompts of %d tokens and more", (long long)s->too_long, TD_SCORES_MAX_TOKENS);
        td_extras_set(e, "prompt_logprobs", "yes", why);
    } else {
        td_extras_set(e, "prompt_logprobs", "no",
                      *s->why          ? s->why
                      : s->without_ids ? "answers or prompts come without token ids"
                                       : "nothing to ask for");
    }
}
