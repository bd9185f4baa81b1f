/* answer_scores.c - read the logprobs that a server gives the tokens of the prompt.
 * SPDX-License-Identifier: Apache-2.0
 *
 * vLLM's form: vllm/entrypoints/openai/completion/protocol.py (prompt_logprobs of
 * CompletionResponseChoice), a dict per position that holds the prompt's own token and the
 * likeliest ones. SGLang's: docs/basic_usage/native_api (logprob_start_len, top_logprobs_num). */
#include "wire/answer_scores.h"

#include <math.h>
#include <stdlib.h>

#include "common/json.h"
#include "wire/answer_event.h"

/* Make room for a score per position. NULL: the list has none or too many, or scores were read
 * before. */
static struct td_answer_score *make_score_room(struct td_answer *a, const cJSON *list)
{
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

    if (a->scores || !n || n > TD_ANSWER_MAX_TOKENS)
        return NULL;
    a->scores = calloc((size_t)n, sizeof *a->scores);
    a->n_scores = a->scores ? (size_t)n : 0;
    return a->scores;
}

static void add_score_alt(struct td_answer_score *s, int32_t id, const cJSON *logprob)
{
    if (s->n < TD_ANSWER_SCORE_ALTS)
        s->alt[s->n++] = (struct td_alt){id, td_logprob_of(td_json_num(logprob, NAN))};
}

static int32_t id_of_name(const char *name)
{
    char *end = NULL;
    long v = name ? strtol(name, &end, 10) : -1;

    return !end || end == name || *end || v < 0 || v > INT32_MAX ? -1 : (int32_t)v;
}

void td_answer_read_scores(struct td_answer *a, const cJSON *list)
{
    struct td_answer_score *s = make_score_room(a, list);
    const cJSON *at, *e;

    if (!s)
        return;
    cJSON_ArrayForEach(at, list) {
        cJSON_ArrayForEach(e, at)
            if (cJSON_IsObject(at))
                add_score_alt(s, id_of_name(e->string), td_json_get(e, "logprob"));
        s++;
    }
}

void td_answer_read_scores_sglang(struct td_answer *a, const cJSON *triples, const cJSON *tops)
{
    struct td_answer_score *s = make_score_room(a, triples);
    const cJSON *at, *top = cJSON_IsArray(tops) ? tops->child : NULL, *e;

    if (!s)
        return;
    cJSON_ArrayForEach(at, triples) {
        const cJSON *logprob = cJSON_GetArrayItem(at, 0);

        if (at != triples->child || !cJSON_IsNull(logprob)) /* the first token has no logprob */
            add_score_alt(s, td_answer_id(cJSON_GetArrayItem(at, 1)), logprob);
        cJSON_ArrayForEach(e, top)
            if (cJSON_IsArray(e))
                add_score_alt(s, td_answer_id(cJSON_GetArrayItem(e, 1)), cJSON_GetArrayItem(e, 0));
        top = top ? top->next : NULL;
        s++;
    }
}

/* The likeliest token. NaN is the greatest, as in a sampler. */
static struct td_alt likeliest_alt(const struct td_answer_score *s)
{
    struct td_alt best = {-1, -INFINITY};
    int i;

    for (i = 0; i < s->n; i++)
        if (isnan(s->alt[i].logprob) || s->alt[i].logprob > best.logprob || best.id < 0) {
            best = s->alt[i];
            if (isnan(best.logprob))
                break;
        }
    return best;
}

static float own_logprob(const struct td_answer_score *s, int32_t id)
{
    int i;

    for (i = 0; i < s->n; i++)
        if (s->alt[i].id == id)
            return s->alt[i].logprob;
    return -INFINITY; /* unknown */
}

int td_answer_finish_scores(const struct td_answer *a, struct td_exchange *x)
{
    size_t i;

    if (!a->n_scores || a->n_scores != (size_t)x->n_prompt_ids)
        return TD_OK;
    x->scores = malloc(a->n_scores * sizeof *x->scores);
    x->scores_top = malloc(a->n_scores * sizeof *x->scores_top);
    if (!x->scores || !x->scores_top)
        return TD_ENOMEM;
    x->n_scores = (int32_t)a->n_scores;
    for (i = 0; i < a->n_scores; i++) {
        x->scores[i] = own_logprob(&a->scores[i], x->prompt_ids[i]);
        x->scores_top[i] = likeliest_alt(&a->scores[i]);
    }
    return TD_OK;
}
