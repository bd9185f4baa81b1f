/* answer_event.c - add the tokens of one event to an answer, whatever its dialect.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer_event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json.h"
#include "common/out_of_memory.h"

#define MAX_HIDDEN 16 /* llama.cpp holds back tokens that end within UTF-8: 3 at most, in fact */
#define CLAMPED_NAN (-9999.0f) /* vLLM's generate writes this for NaN and -inf of a chosen token */

/* Make room for one more element. False: a->limit is set, or there was no memory, which is counted. */
static bool grow_answer(struct td_answer *a, void *array, size_t n, size_t *cap, size_t elem,
                        size_t max)
{
    const int rc = td_array_grow(array, n, cap, elem, max);

    a->limit |= rc == TD_ELIMIT;
    if (rc == TD_ENOMEM)
        td_out_of_memory_note();
    return rc == TD_OK;
}

int64_t td_answer_count(const cJSON *obj, const char *key, int64_t missing)
{
    int64_t n = td_json_get_i64(obj, key, -1);

    return n < 0 || n > TD_ANSWER_MAX_COUNT ? missing : n;
}

int32_t td_answer_id(const cJSON *v)
{
    int64_t id = td_json_i64(v, -1);

    return id > INT32_MAX ? INT32_MAX : id < INT32_MIN ? INT32_MIN : (int32_t)id;
}

/* "token_id:123" (vLLM's return_tokens_as_token_ids) -> 123, else -1 */
static int32_t id_of_text(const char *s)
{
    char *end;
    long v;

    if (!s || strncmp(s, "token_id:", 9))
        return -1;
    v = strtol(s + 9, &end, 10);
    return *end || end == s + 9 || v < 0 || v > INT32_MAX ? -1 : (int32_t)v;
}

/* ---- one token --------------------------------------------------------------------------------------------------- */

static struct td_answer_token *add_token(struct td_answer *a, int32_t id)
{
    struct td_answer_token *t;

    if (!grow_answer(a, &a->tokens, a->n_tokens, &a->cap_tokens, sizeof *a->tokens,
                     TD_ANSWER_MAX_TOKENS))
        return NULL;
    t = &a->tokens[a->n_tokens++];
    *t = (struct td_answer_token){.id = id, .logprob = NAN, .first_alt = (uint32_t)a->n_alts};
    return t;
}

static void set_logprob(struct td_answer_token *t, const cJSON *v)
{
    if (!v)
        return;
    t->has_logprob = true;
    t->logprob = td_logprob_of(td_json_num(v, NAN)); /* null and strings are NaN */
}

static void set_text(struct td_answer_token *t, const cJSON *v)
{
    int32_t id;

    if (!cJSON_IsString(v))
        return;
    id = id_of_text(v->valuestring);
    if (id >= 0 && t->id < 0)
        t->id = id;
    else if (id < 0 && !t->text)
        t->text = td_strdup(v->valuestring);
}

static void add_alt(struct td_answer *a, struct td_answer_token *t, int32_t id, const cJSON *logprob)
{
    if (t->n_alts >= TD_ANSWER_MAX_ALTS ||
        !grow_answer(a, &a->alts, a->n_alts, &a->cap_alts, sizeof *a->alts,
                     (size_t)TD_ANSWER_MAX_TOKENS * 8))
        return;
    a->alts[a->n_alts++] = (struct td_alt){id, td_logprob_of(td_json_num(logprob, NAN))};
    t->n_alts++;
}

static bool is_better_alt(const struct td_alt *x, const struct td_alt *y)
{
    return isnan(y->logprob) ? !isnan(x->logprob) : x->logprob > y->logprob;
}

/* Sort by logprob, best first, NaN last. Equal ones keep the server's order. Rows are short. */
static void sort_alts(struct td_answer *a, const struct td_answer_token *t)
{
    struct td_alt *row;
    uint32_t i, j;

    if (!t->n_alts)
        return;
    row = a->alts + t->first_alt;
    for (i = 1; i < t->n_alts; i++) {
        struct td_alt x = row[i];

        for (j = i; j && is_better_alt(&x, &row[j - 1]); j--)
            row[j] = row[j - 1];
        row[j] = x;
    }
}

/* The id of an entry: llama.cpp's "id" or "token_id" of vLLM's /inference/v1/generate; -1:
 * neither. */
static int32_t id_of_entry(const cJSON *e)
{
    const cJSON *id = td_json_get(e, "id");

    return td_answer_id(id ? id : td_json_get(e, "token_id"));
}

/* Alternatives of chat style, of llama.cpp and of vLLM's generate: [{"id"?, "token"?, "logprob"}, …] */
static void alts_of_list(struct td_answer *a, struct td_answer_token *t, const cJSON *list)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, list) {
        const char *text = td_json_get_str(e, "token", NULL);
        int32_t id = id_of_entry(e);

        if (id < 0)
            id = id_of_text(text);

        if (id < 0 && text && t->text && !strcmp(text, t->text))
            id = t->id;
        add_alt(a, t, id, td_json_get(e, "logprob"));
    }
}

/* Alternatives of completions style: {"token_id:5": -0.1, " Paris": null, …} */
static void alts_of_dict(struct td_answer *a, struct td_answer_token *t, const cJSON *dict)
{
    const cJSON *e;

    cJSON_ArrayForEach(e, dict) {
        int32_t id = id_of_text(e->string);

        if (id < 0 && t->text && e->string && !strcmp(e->string, t->text))
            id = t->id;
        add_alt(a, t, id, e);
    }
}

/* ---- the tokens of one event -------------------------------------------------------------------------------------- */

static void advance(const cJSON **v)
{
    *v = *v ? (*v)->next : NULL;
}

static void advance_n(const cJSON **v, int n)
{
    while (n-- > 0)
        advance(v);
}

static void advance_all(struct td_answer_parts *at)
{
    advance(&at->ids), advance(&at->tokens), advance(&at->logprobs), advance(&at->top);
    advance(&at->triples), advance(&at->top_triples);
}

/* SGLang's [logprob, id, text]; the text is null unless asked for */
static void fill_triple(struct td_answer *a, struct td_answer_token *t, const cJSON *triple, const cJSON *top)
{
    const cJSON *e;

    if (t->id < 0)
        t->id = td_answer_id(cJSON_GetArrayItem(triple, 1));
    set_logprob(t, cJSON_GetArrayItem(triple, 0));
    set_text(t, cJSON_GetArrayItem(triple, 2));
    cJSON_ArrayForEach(e, top)
        if (cJSON_IsArray(e))
            add_alt(a, t, td_answer_id(cJSON_GetArrayItem(e, 1)), cJSON_GetArrayItem(e, 0));
}

static void fill_entry(struct td_answer *a, struct td_answer_token *t, const cJSON *e)
{
    if (t->id < 0)
        t->id = id_of_entry(e);
    set_text(t, td_json_get(e, "token"));
    set_logprob(t, td_json_get(e, "logprob"));
    if (td_json_get(e, "token_id") && t->logprob <= CLAMPED_NAN)
        t->logprob = NAN;
    alts_of_list(a, t, td_json_get(e, "top_logprobs"));
}

/* Fill a token.
 *   at : the array elements that belong to it; NULL past an array's end */
static void fill_token(struct td_answer *a, struct td_answer_token *t, const struct td_answer_parts *at)
{
    if (at->content) {
        fill_entry(a, t, at->content);
    } else if (at->triples) {
        fill_triple(a, t, at->triples, at->top_triples);
    } else {
        set_text(t, at->tokens);
        set_logprob(t, at->logprobs);
        alts_of_dict(a, t, at->top);
    }
    sort_alts(a, t);
    a->ids_missing += t->id < 0;
    a->logprobs_missing += !t->has_logprob;
}

static const cJSON *first_element(const cJSON *array)
{
    return array ? array->child : NULL;
}

/* Add tokens that the server counted and did not show, without their ids. Returns how many. */
static int add_hidden_tokens(struct td_answer *a, int64_t n)
{
    int i;

    for (i = 0; i < n && n <= MAX_HIDDEN && add_token(a, -1); i++) {
        a->ids_missing++;
        a->logprobs_missing++;
    }
    return i;
}

static int count_tokens(const struct td_answer_parts *p)
{
    int n = cJSON_GetArraySize(p->ids) - p->skip_ids;

    if (n <= 0)
        n = cJSON_GetArraySize(p->content ? p->content : p->tokens);
    if (!n)
        n = cJSON_GetArraySize(p->triples) - p->skip_triples;
    return n > 0 ? n : p->any_text;
}

void td_answer_add_event(struct td_answer *a, const struct td_answer_parts *p, int64_t t_ns)
{
    struct td_answer_parts at = {.ids = first_element(p->ids),
                                 .content = first_element(p->content),
                                 .tokens = first_element(p->tokens),
                                 .logprobs = first_element(p->logprobs),
                                 .top = first_element(p->top),
                                 .triples = first_element(p->triples),
                                 .top_triples = first_element(p->top_triples)};
    int n = count_tokens(p), i, done;
    const cJSON *entry;
    /* llama.cpp has no entry for a token that is part of a glyph */
    bool gaps = p->ids && p->content && cJSON_GetArraySize(p->content) != n;

    advance_n(&at.ids, p->skip_ids);
    advance_n(&at.triples, p->skip_triples);
    advance_n(&at.top_triples, p->skip_triples);
    a->counted |= p->position > 0;
    done = p->position ? add_hidden_tokens(a, p->position - n - (int64_t)a->n_tokens) : 0;
    for (i = 0; i < n; i++) {
        struct td_answer_token *t = add_token(a, at.ids ? td_answer_id(at.ids) : -1);

        if (!t)
            break;
        entry = at.content;
        if (gaps && entry && id_of_entry(entry) != t->id)
            at.content = NULL;
        fill_token(a, t, &at);
        at.content = at.content ? entry->next : entry;
        done++;
        advance_all(&at);
    }
    if (done && grow_answer(a, &a->events, a->n_events, &a->cap_events, sizeof *a->events,
                            TD_ANSWER_MAX_TOKENS))
        a->events[a->n_events++] = (struct td_token_event){t_ns, done};
}

void td_answer_add_hidden_tail(struct td_answer *a)
{
    if (a->counted && a->n_events && !a->error_kind)
        a->events[a->n_events - 1].n_tokens +=
            add_hidden_tokens(a, a->usage.completion_tokens - (int64_t)a->n_tokens);
}

bool td_answer_add_text(struct td_answer *a, const cJSON *v)
{
    size_t before = a->text.len;

    if (td_json_bytes(v, &a->text) == TD_ELIMIT)
        a->limit = true;
    return a->text.len > before;
}

void td_answer_prompt_ids(struct td_answer *a, const cJSON *ids)
{
    const cJSON *e;

    if (a->n_prompt_ids || !cJSON_IsArray(ids))
        return;
    cJSON_ArrayForEach(e,
                       ids) if (grow_answer(a, &a->prompt_ids, a->n_prompt_ids, &a->cap_prompt_ids,
                                            sizeof *a->prompt_ids, TD_ANSWER_MAX_TOKENS))
        a->prompt_ids[a->n_prompt_ids++] = td_answer_id(e);
}
