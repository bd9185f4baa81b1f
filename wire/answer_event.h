/* answer_event.h - add the tokens, the text and the prompt ids of one event to an answer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_EVENT_H
#define TD_WIRE_ANSWER_EVENT_H

#include <cjson/cJSON.h>

#include "wire/answer_state.h"

/* The tokens of one event, in parallel arrays of borrowed JSON. NULL: not sent. */
struct td_answer_parts {
    const cJSON *ids;          /* [int] */
    const cJSON *content;      /* [{token or token_id, logprob, top_logprobs, id?}]: chat style, llama.cpp, vLLM's generate */
    const cJSON *tokens, *logprobs, *top; /* completions style: [text], [number], [{text: logprob}] */
    const cJSON *triples, *top_triples;   /* SGLang: [[logprob, id, text]], [[[logprob, id, text], ...]] */
    int skip_ids, skip_triples; /* elements at the front that came with an earlier event */
    int64_t position;          /* tokens up to this event's end, as the server counts; 0: unknown */
    bool any_text;             /* the event has text: without arrays it counts as one token */
};
void td_answer_add_event(struct td_answer *a, const struct td_answer_parts *p, int64_t t_ns);
/* At the end, add tokens that the server counted and no event showed, if the places of the others
 * are known. */
void td_answer_add_hidden_tail(struct td_answer *a);

/* Append a JSON string's bytes to the text. True: there were some. */
bool td_answer_add_text(struct td_answer *a, const cJSON *v);
/* Set the prompt's token ids, unless they are set or `ids` is no array. */
void td_answer_prompt_ids(struct td_answer *a, const cJSON *ids);
/* A count of tokens, by name; `missing` where it is not there or cannot be one. */
int64_t td_answer_count(const cJSON *obj, const char *key, int64_t missing);
/* Read a token id, clamped to 32 bits; -1: v is no number. */
int32_t td_answer_id(const cJSON *v);

#endif
