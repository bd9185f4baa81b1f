/* long_exchange.c - keep an exchange within what a line of a fixture may hold.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/long_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SURELY_SHORT ((size_t)1 << 20) /* bytes of text, or elements of arrays */

/* Could the line be too long? Most exchanges are far from it, and need no second look. */
static bool may_be_long(const struct td_exchange *x)
{
    const size_t n = (size_t)x->n_tokens + (size_t)x->n_prompt_ids + (size_t)x->n_scores +
                     (size_t)x->n_events + (size_t)x->n_tokens * (size_t)x->top_k;
    size_t text = x->text_len;
    int32_t i;

    for (i = 0; x->token_text && i < x->n_tokens; i++)
        text += x->token_text[i] ? strlen(x->token_text[i]) : 0;
    return text > SURELY_SHORT || n > SURELY_SHORT;
}

static bool is_too_long(const struct td_exchange *x)
{
    struct td_buf line = TD_BUF_INIT(TD_EXCHANGE_MAX_LINE);
    const bool too_long = td_exchange_write(x, &line) == TD_ELIMIT;

    td_buf_release(&line);
    return too_long;
}

static void drop(void *pointer)
{
    void **p = pointer;

    free(*p);
    *p = NULL;
}

static void drop_answer(struct td_exchange *x)
{
    int32_t i;

    for (i = 0; x->token_text && !x->token_text_in_one && i < x->n_tokens; i++)
        free(x->token_text[i]);
    x->token_text_in_one = false;
    drop(&x->token_text);
    drop(&x->token_ids);
    drop(&x->logprobs);
    drop(&x->top);
    drop(&x->text);
    drop(&x->events);
    drop(&x->prompt_ids);
    drop(&x->scores);
    drop(&x->scores_top);
    drop(&x->finish_reason);
    x->n_tokens = x->top_k = x->n_events = x->n_prompt_ids = x->n_scores = 0;
    x->text_len = 0;
    x->ids_complete = false;
}

static int note_dropped(struct td_exchange *x)
{
    char words[160];

    if (!x->extra)
        x->extra = cJSON_CreateObject();
    if (!x->extra || !cJSON_AddBoolToObject(x->extra, "answer_dropped", true))
        return TD_ENOMEM;
    if (x->error_kind)
        return TD_OK;
    snprintf(words, sizeof words,
             "the answer takes more than %zu MiB as JSON; its bytes are in the wire log only",
             TD_EXCHANGE_MAX_LINE >> 20);
    x->error = strdup(words);
    x->error_kind = strdup("parse");
    return x->error && x->error_kind ? TD_OK : TD_ENOMEM;
}

int td_exchange_limit_line(struct td_exchange *x, bool long_request)
{
    if ((!long_request && !may_be_long(x)) || !is_too_long(x))
        return TD_OK;
    drop_answer(x);
    x->text = calloc(1, 1);
    if (!x->text)
        return TD_ENOMEM;
    if (is_too_long(x)) {
        cJSON_Delete(x->request);
        x->request = NULL;
    }
    return note_dropped(x);
}
