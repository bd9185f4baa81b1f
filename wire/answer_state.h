/* answer_state.h - what was read of one answer so far: tokens, text, usage, the first error.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_STATE_H
#define TD_WIRE_ANSWER_STATE_H

#include "common/buf.h"
#include "format/records.h"

#define TD_ANSWER_MAX_TOKENS (1 << 22)
#define TD_ANSWER_MAX_VALUES ((size_t)1 << 21) /* JSON values in one event or body: 80 bytes each in memory */
#define TD_ANSWER_MAX_COUNT (1LL << 40) /* a larger count of tokens is taken as not reported */
#define TD_ANSWER_MAX_TEXT ((size_t)256 << 20)
#define TD_ANSWER_MAX_ALTS 128 /* per token */

struct td_answer_token {
    int32_t id;               /* -1: unknown */
    float logprob;
    bool has_logprob;
    char *text;               /* NULL: unknown */
    uint32_t first_alt, n_alts;
};

#define TD_ANSWER_SCORE_ALTS 4 /* per prompt token: itself and the likeliest ones */
struct td_answer_score { struct td_alt alt[TD_ANSWER_SCORE_ALTS]; int n; }; /* in server's order */

/* Tokens that the server says it computed for an answer; -1: it does not say. llama.cpp's `timings`; cached:
 * of the prompt, taken out of a cache, also in OpenAI's `prompt_tokens_details`. */
struct td_answer_computed { int64_t prompt, cached, answer; };
#define TD_ANSWER_COMPUTED_NONE {-1, -1, -1}

struct td_answer {
    struct td_answer_token *tokens; size_t n_tokens, cap_tokens;
    struct td_alt *alts; size_t n_alts, cap_alts;
    struct td_token_event *events; size_t n_events, cap_events;
    int32_t *prompt_ids; size_t n_prompt_ids, cap_prompt_ids;
    struct td_answer_score *scores; size_t n_scores; /* of the prompt's tokens */
    struct td_buf text;
    char *finish_reason, *fingerprint, *id, *model;
    struct td_usage usage;
    struct td_answer_computed computed;
    bool answered;            /* choice 0 was seen */
    bool end_mark;            /* [DONE] */
    bool done;                /* [DONE], or "stop":true of llama.cpp */
    bool counted;             /* events told how many tokens came before, so the place of a token
                                 is known even if its id is not */
    bool shaped;              /* an answer of a known dialect was seen */
    int64_t other_choices, bad_events, late_events, reasoning_bytes, tool_calls, ids_missing, logprobs_missing;
    bool bad_utf8, limit;     /* limit: a maximum was reached, and the rest dropped */
    char *error, *error_kind; /* the first error */
};
void td_answer_init(struct td_answer *a);
void td_answer_release(struct td_answer *a);

/* Note the first error; later ones are ignored. kind: error_kind of docs/format.md. */
void td_answer_fail(struct td_answer *a, const char *kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
