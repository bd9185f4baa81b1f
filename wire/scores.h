/* scores.h - teacher forcing: have a server score recorded answers token by token.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Greedy answers of two builds fork at the first close call, and nothing behind the fork can be
 * compared. So the recorded text, prompt and answer as token ids, is sent to the server as a
 * prompt, unstreamed, with max_tokens 1. The server reports the logprob of each token after all
 * those before it, and the token that it would have chosen there.
 *
 * Such requests have the role "scores" and the phase warmup, so that no other lane compares them.
 * `repeat` is the pass: in the first pass texts are sent one at a time, in the second one with
 * others in flight, in another order of the batch. How far the two passes of one server differ is
 * the noise.
 *
 * vLLM offers this (/v1/completions with prompt_logprobs 1), and SGLang (/generate with
 * logprob_start_len 0; from its documentation, never run). llama.cpp and OpenAI's API do not. A
 * server computes a text in one piece, as it does prompts: kernels that only run for single rows,
 * while an answer is being written, are not covered.
 *
 * A server holds the logits of a complete text at once (vLLM: 4 bytes x vocabulary x tokens, beyond
 * the memory it has set aside); hence the bound on tokens. All of this is sent after everything
 * that is timed or tapped. */
#ifndef TD_WIRE_SCORES_H
#define TD_WIRE_SCORES_H

#include "wire/extras.h"
#include "wire/send.h"

#define TD_SCORES_ROLE "scores"
#define TD_SCORES_PASSES 2
#define TD_SCORES_TOGETHER 4         /* requests in flight in the second pass */
#define TD_SCORES_PROMPTS 256        /* texts, unless --scores says otherwise */
#define TD_SCORES_MAX_TOKENS 512     /* of a text; answers are cut there, longer prompts left out */

/* Does x have the role "scores"? */
bool td_scores_role(const struct td_exchange *x);

enum td_scored {
    TD_SCORED,               /* logprobs are there */
    TD_SCORED_NAN,           /* the server reports NaN (vLLM: HTTP 400, for JSON has no NaN) */
    TD_SCORED_REFUSED,       /* not offered: 400, 404, 405, 422, 501, or no logprobs */
    TD_SCORED_UNSEEN,        /* this machine failed, which says nothing of the server (td_exchange_unseen) */
    TD_SCORED_FAILED         /* anything else: a crash, a timeout, HTTP 500 */
};
/* The outcome of x, an exchange with that role. */
enum td_scored td_scores_outcome(const struct td_exchange *x);

/* A text to be scored. ids : [n]; the answer begins at `from` */
struct td_scores_text { char *prompt_id, *category; int32_t *ids; int32_t n, from; };

struct td_scores {
    int64_t max_texts;       /* 0: off */
    struct td_scores_text *text; size_t n, cap;
    int64_t too_long, without_ids;  /* prompts left out */
    int64_t count[5];        /* answers so far, by enum td_scored */
    char why[200];           /* why the first text was not scored, or "" */
};
void td_scores_init(struct td_scores *s, int64_t max_texts);
void td_scores_release(struct td_scores *s);

/* Add an exchange: the first complete answer to each prompt becomes a text, one with the role is
 * counted. TD_ENOMEM. */
int td_scores_add(struct td_scores *s, const struct td_exchange *x, struct td_error *err);

/* Send a plan. Every exchange goes to td_scores_add() before the function returns. */
typedef int td_scores_send_fn(void *arg, const struct td_plan *plan, struct td_error *err);
/* Have the texts scored: one first, the others unless it was refused. */
int td_scores_ask(struct td_scores *s, const struct td_api_server *server, td_scores_send_fn *send,
                  void *arg, struct td_error *err);
/* Does this kind of server offer to score texts? */
bool td_scores_offered(const struct td_api_server *server);
/* Plan what a recording asked for and got: the same texts, passes and groups.
 *   xs : [n] exchanges of the recording */
int td_scores_plan_again(const struct td_exchange *xs, size_t n, struct td_plan *plan, struct td_error *err);
/* Send such a plan, one request first, as td_scores_ask() does. */
int td_scores_send(struct td_scores *s, const struct td_plan *plan, td_scores_send_fn *send, void *arg, struct td_error *err);

/* Note the extra "prompt_logprobs": got or not, and why. Nothing when scoring is off. */
void td_scores_extra(const struct td_scores *s, const struct td_api_server *server, struct td_extras *e);

#endif
