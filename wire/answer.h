/* answer.h - the content of an answer, event by event: tokens, logprobs, text, usage, errors in every dialect.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_H
#define TD_WIRE_ANSWER_H

#include "format/records.h"

#define TD_ANSWER_MAX_TOKENS (1 << 22)
#define TD_ANSWER_MAX_TEXT ((size_t)256 << 20)
#define TD_ANSWER_MAX_ALTS 128 /* per token */

struct td_answer_token {
    int32_t id;               /* -1: not known */
    float logprob;
    bool has_logprob;
    char *text;               /* NULL: not said, or only "token_id:N" */
    uint32_t first_alt, n_alts;
};

#define TD_ANSWER_SCORE_ALTS 4 /* of a token of the prompt: itself and the likeliest are asked for */
struct td_answer_score { struct td_alt alt[TD_ANSWER_SCORE_ALTS]; int n; }; /* as the server ordered them; the token itself is one */

struct td_answer {
    struct td_answer_token *tokens; size_t n_tokens, cap_tokens;
    struct td_alt *alts; size_t n_alts, cap_alts;
    struct td_token_event *events; size_t n_events, cap_events;
    int32_t *prompt_ids; size_t n_prompt_ids, cap_prompt_ids;
    struct td_answer_score *scores; size_t n_scores; /* of the prompt's tokens */
    struct td_buf text;
    char *finish_reason, *fingerprint, *id;
    struct td_usage usage;
    bool done;                /* [DONE], or "stop":true of llama.cpp */
    bool counted;             /* events said how many tokens came before: places are known where ids are not */
    bool shaped;              /* something that is an answer of a known dialect was seen */
    int64_t other_choices, bad_events, reasoning_bytes, tool_calls, ids_missing, logprobs_missing;
    bool bad_utf8, limit;     /* limit: a maximum was reached, the rest was dropped */
    char *error, *error_kind; /* the first that came */
};
void td_answer_init(struct td_answer *a);
void td_answer_release(struct td_answer *a);

/* Note the first error; later ones are ignored. kind: a literal. */
void td_answer_fail(struct td_answer *a, const char *kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* One SSE event's data, or a whole body. t_ns: when it was complete. streamed: an event of a stream. */
void td_answer_take(struct td_answer *a, const char *data, size_t n, int64_t t_ns, bool streamed);
/* The data of an "error:" line. */
void td_answer_stream_error(struct td_answer *a, const char *data, size_t n);
/* The body of an answer with an error status, in any of the forms that are known, as one sentence. */
void td_answer_http_error(struct td_answer *a, int status, const char *location, const char *body, size_t n);
/* Move what was gathered into x (tokens, logprobs, text, usage, events; not the error). TD_OK or TD_ENOMEM. */
int td_answer_finish(struct td_answer *a, struct td_exchange *x);

/* answer_scores.c: logprobs of the prompt. vLLM: `prompt_logprobs`, [null | {"ID": {"logprob", "rank", "decoded_token"}}]. */
void td_answer_scores(struct td_answer *a, const cJSON *list);
/* SGLang: `input_token_logprobs` [[logprob or null, id, text]] and `input_top_logprobs` [null | [[logprob, id, text]]]. */
void td_answer_scores_sglang(struct td_answer *a, const cJSON *triples, const cJSON *tops);
/* Into x, whose prompt_ids say which token stood where. Not as many as the prompt has: none is kept. TD_OK or TD_ENOMEM. */
int td_answer_finish_scores(const struct td_answer *a, struct td_exchange *x);

#endif
