/* answer_event.h - what the dialects of answer*.c share: tokens, texts and prompts of one event put into the answer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_EVENT_H
#define TD_WIRE_ANSWER_EVENT_H

#include <cjson/cJSON.h>

#include "wire/answer_state.h"

/* The tokens of one event: parallel arrays, each NULL when the server did not send it. Borrowed JSON. */
struct td_answer_parts {
    const cJSON *ids;          /* [int] */
    const cJSON *content;      /* [{token or token_id, logprob, top_logprobs, id?}]: chat style, llama.cpp, vLLM's generate */
    const cJSON *tokens, *logprobs, *top; /* completions style: [text], [number], [{text: logprob}] */
    const cJSON *triples, *top_triples;   /* SGLang: [[logprob, id, text]], [[[logprob, id, text], ...]] */
    int skip_ids, skip_triples; /* so many at the front came with an earlier event */
    int64_t position;          /* tokens of the answer up to this event's end, as the server counts; 0: not said */
    bool any_text;             /* there is text: without any array it counts as one token */
};
void td_answer_add_event(struct td_answer *a, const struct td_answer_parts *p, int64_t t_ns);
/* At the end: tokens that were counted and came with no event, when the places of the others are known. */
void td_answer_add_hidden_tail(struct td_answer *a);

/* Append a JSON string's bytes; true: there were some. */
bool td_answer_add_text(struct td_answer *a, const cJSON *v);
/* The prompt's ids, once: later ones are ignored, and what is no array. */
void td_answer_prompt_ids(struct td_answer *a, const cJSON *ids);
/* A token id; -1 for what is no number, clamped to 32 bits. */
int32_t td_answer_id(const cJSON *v);

#endif
