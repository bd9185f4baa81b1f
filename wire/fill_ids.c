/* fill_ids.c - hold back answers with lost token ids, ask again unstreamed, fill in what agrees.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/fill_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "wire/fetch.h"

#define TEMPLATE_MS 10000

struct list { struct td_exchange *x; size_t n, cap; };

struct td_fill_ids {
    td_derive_emit_fn *emit; void *arg;
    struct list held, fillers;
};

struct td_fill_ids *td_fill_ids_new(td_derive_emit_fn *emit, void *arg)
{
    struct td_fill_ids *w = calloc(1, sizeof *w);

    if (w) {
        w->emit = emit;
        w->arg = arg;
    }
    return w;
}

static void list_release(struct list *l)
{
    while (l->n)
        td_exchange_release(&l->x[--l->n]);
    free(l->x);
    *l = (struct list){0};
}

void td_fill_ids_free(struct td_fill_ids *w)
{
    if (!w)
        return;
    list_release(&w->held);
    list_release(&w->fillers);
    free(w);
}

/* Move x into the list. False: no room, x is as it was. */
static bool list_add(struct list *l, struct td_exchange *x)
{
    if (td_array_grow(&l->x, l->n, &l->cap, sizeof *l->x, TD_FILL_IDS_MAX_HELD))
        return false;
    l->x[l->n++] = *x;
    memset(x, 0, sizeof *x);
    return true;
}

/* ---- held answers ---------------------------------------------------------------------------- */

static bool is_filler(const struct td_exchange *x)
{
    return !strcmp(td_json_get_str(x->extra, "role", ""), TD_FILL_IDS_ROLE);
}

/* Is every token there, but not every id? */
static bool is_lossy(const struct td_exchange *x)
{
    return !x->error && x->token_ids && !x->ids_complete && x->phase != TD_PHASE_WARMUP && !strcmp(x->api, "llamacpp") &&
           x->usage.completion_tokens == x->n_tokens && !td_json_get_bool(x->extra, "bad_utf8", false);
}

static bool fill_answer(struct td_exchange *x, const struct td_exchange *from)
{
    int32_t i;

    if (from->error || !from->ids_complete || from->n_tokens != x->n_tokens || strcmp(from->prompt_id, x->prompt_id) != 0 ||
        from->text_len < x->text_len || memcmp(from->text, x->text, x->text_len) != 0)
        return false;
    for (i = 0; i < x->n_tokens; i++)
        if (x->token_ids[i] >= 0 && x->token_ids[i] != from->token_ids[i])
            return false;
    memcpy(x->token_ids, from->token_ids, (size_t)x->n_tokens * sizeof *x->token_ids);
    x->ids_complete = true;
    if (!x->extra)
        x->extra = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(x->extra, "ids_missing");
    cJSON_AddNumberToObject(x->extra, "ids_from", (double)from->stream);
    return true;
}

int td_fill_ids_add(void *arg, struct td_exchange *x, struct td_error *err)
{
    struct td_fill_ids *w = arg;

    if ((is_lossy(x) && list_add(&w->held, x)) || (is_filler(x) && list_add(&w->fillers, x)))
        return TD_OK;
    return w->emit(w->arg, x, err);
}

static int emit_all(struct td_fill_ids *w, struct list *l, struct td_error *err)
{
    size_t i;
    int rc = TD_OK;

    for (i = 0; i < l->n && !rc; i++)
        rc = w->emit(w->arg, &l->x[i], err);
    list_release(l);
    return rc;
}

int td_fill_ids_end(struct td_fill_ids *w, struct td_error *err)
{
    size_t i, j;
    int rc;

    for (i = 0; i < w->held.n; i++)
        for (j = 0; j < w->fillers.n && !fill_answer(&w->held.x[i], &w->fillers.x[j]);)
            j++;
    rc = emit_all(w, &w->held, err);
    return rc ? rc : emit_all(w, &w->fillers, err);
}

/* ---- asking --------------------------------------------------------------------------------------------------------- */

static void set_member(cJSON *o, const char *name, cJSON *v)
{
    cJSON_DeleteItemFromObjectCaseSensitive(o, name);
    cJSON_AddItemToObject(o, name, v);
}

/* The text that the server's template makes of these messages, or NULL. */
static cJSON *apply_template(const cJSON *messages, const struct td_api_server *s,
                             const char *const *headers)
{
    struct td_http_reply r = TD_HTTP_REPLY_INIT;
    struct td_buf body = TD_BUF_INIT((size_t)64 << 20);
    cJSON *v = NULL, *prompt = NULL;
    struct td_jw w;
    char url[640];

    td_jw_init(&w, &body, false);
    td_jw_obj(&w, NULL);
    td_jw_value(&w, "messages", messages);
    td_jw_end(&w);
    snprintf(url, sizeof url, "%s/apply-template", s->url);
    r.as_it_came = true; /* it is sent again, and not shown */
    if (!body.failed && !td_http_fetch(url, headers, body.data, body.len, TEMPLATE_MS, &r, NULL) && r.status == 200)
        v = td_json_parse(td_buf_str(&r.body), r.body.len, NULL);
    prompt = cJSON_DetachItemFromObjectCaseSensitive(v, "prompt");
    cJSON_Delete(v);
    td_buf_release(&body);
    td_buf_release(&r.body);
    return prompt;
}

/* Turn the body of a chat into that of a completion of its template's text. NULL: the server does
 * not give the text. */
static cJSON *chat_as_completion(const cJSON *chat, const struct td_api_server *s,
                                 const char *const *headers)
{
    static const char *const dropped[] = {"model", "messages", "logprobs", "top_logprobs", "stream_options", "timings_per_token"};
    cJSON *prompt = apply_template(td_json_get(chat, "messages"), s, headers), *body;
    size_t i;

    if (!prompt)
        return NULL;
    body = cJSON_Duplicate(chat, true);
    set_member(body, "n_predict",
               cJSON_CreateNumber((double)td_json_get_i64(chat, "max_tokens", -1)));
    cJSON_DeleteItemFromObjectCaseSensitive(body, "max_tokens");
    for (i = 0; i < sizeof dropped / sizeof *dropped; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(body, dropped[i]);
    set_member(body, "prompt", prompt);
    return body;
}

static int plan_request(const struct td_exchange *x, const struct td_api_server *s,
                        const char *const *headers, struct td_plan *plan, struct td_error *err)
{
    bool chat = td_json_get(x->request, "messages") != NULL;
    cJSON *body =
        chat ? chat_as_completion(x->request, s, headers) : cJSON_Duplicate(x->request, true);
    struct td_buf text = TD_BUF_INIT((size_t)64 << 20);
    char path[] = "/completion", role[] = TD_FILL_IDS_ROLE;
    struct td_plan_item it = {.prompt_id = x->prompt_id, .category = x->category, .api = x->api, .path = path, .role = role,
                              .concurrency = 1, .phase = TD_PHASE_WARMUP, .group = td_plan_next_group(plan), .at_ns = -1};
    struct td_jw w;
    int rc;

    if (!body)
        return TD_OK;
    set_member(body, "stream", cJSON_CreateFalse());
    set_member(body, "n_probs", cJSON_CreateNumber(0));
    set_member(body, "return_tokens", cJSON_CreateTrue());
    td_jw_init(&w, &text, false);
    td_jw_value(&w, NULL, body);
    it.body = text.data;
    it.body_len = text.len;
    rc = text.failed ? TD_OK : td_plan_add(plan, &it, err);
    td_buf_release(&text);
    cJSON_Delete(body);
    return rc;
}

int td_fill_ids_plan(struct td_fill_ids *w, const struct td_api_server *s, const char *const *headers, struct td_plan *plan,
                  struct td_error *err)
{
    size_t i, j;
    int rc = TD_OK;

    for (i = 0; i < w->held.n && !rc; i++) {
        for (j = 0; j < i && strcmp(w->held.x[j].prompt_id, w->held.x[i].prompt_id) != 0;)
            j++;
        if (j == i && w->held.x[i].request)
            rc = plan_request(&w->held.x[i], s, headers, plan, err);
    }
    return rc;
}
