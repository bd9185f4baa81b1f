/* scores.h - teacher forcing: have a server judge recorded answers token by token, instead of writing its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Greedy answers of two builds part at the first close call, and behind it nothing can be compared. So the recorded text itself, prompt
 * and answer as token ids, is given to the server as a prompt, unstreamed, with max_tokens 1: it says the logprob of each token after all
 * before it, and which token it would have put there. The requests have the role "scores" and the phase warmup, so that nothing else is compared
 * by them, and the repeat says which pass it was: each text is asked one at a time, then once more with others in flight, in another order of the batch;
 * how far the two passes of one server lie apart is the noise.
 *
 * Asked of vLLM (/v1/completions with prompt_logprobs 1) and SGLang (/generate with logprob_start_len 0; from its documentation, never run).
 * llama.cpp and OpenAI's API do not offer it. A server computes a text in one piece, as it does prompts: kernels that only run for
 * single rows, while an answer is being written, are not seen by this.
 *
 * A server holds the logits of a whole text at once (vLLM: 4 bytes x vocabulary x tokens, outside of what it has set aside), hence the
 * bound on tokens; and all of it is asked after what is timed and tapped. */
#ifndef TD_WIRE_SCORES_H
#define TD_WIRE_SCORES_H

#include "wire/extras.h"
#include "wire/send.h"

#define TD_SCORES_ROLE "scores"
#define TD_SCORES_PASSES 2
#define TD_SCORES_TOGETHER 4         /* requests in flight in the second pass */
#define TD_SCORES_PROMPTS 256        /* texts, unless --scores says otherwise */
#define TD_SCORES_MAX_TOKENS 512     /* of a text; an answer is cut there, and a prompt that is as long has none */

/* Is x a request of this kind? */
bool td_scores_role(const struct td_exchange *x);

enum td_scored {
    TD_SCORED,               /* logprobs are there */
    TD_SCORED_NAN,           /* the server says that they were NaN (vLLM: no JSON can hold them, HTTP 400) */
    TD_SCORED_REFUSED,       /* it does not offer this: 400, 404, 405, 422, 501, or an answer without logprobs */
    TD_SCORED_FAILED         /* anything else: it died, it timed out, HTTP 500 */
};
/* What came of x, an exchange of that role. */
enum td_scored td_scores_outcome(const struct td_exchange *x);

struct td_scores_text { char *prompt_id, *category; int32_t *ids; int32_t n, from; }; /* ids : [n], the answer begins at from */

struct td_scores {
    int64_t max_texts;       /* 0: nothing is kept or asked */
    struct td_scores_text *text; size_t n, cap;
    int64_t too_long, without_ids;  /* prompts left out */
    int64_t count[4];        /* answers so far, by enum td_scored */
    char why[200];           /* the first that was not scored */
};
/* max_texts 0: off. */
void td_scores_init(struct td_scores *s, int64_t max_texts);
void td_scores_release(struct td_scores *s);

/* An exchange went by. The first complete answer to each prompt is kept as a text; what has the role is counted. TD_ENOMEM. */
int td_scores_add(struct td_scores *s, const struct td_exchange *x, struct td_error *err);

/* Sends a plan; what comes back goes to td_scores_add before it returns. */
typedef int td_scores_send_fn(void *arg, const struct td_plan *plan, struct td_error *err);
/* Ask for the texts that were kept: one first, then the others unless it was refused. */
int td_scores_ask(struct td_scores *s, const struct td_api_server *server, td_scores_send_fn *send, void *arg, struct td_error *err);
/* Append what a recording asked and got: the same texts, passes and groups. xs : [n] */
int td_scores_plan_again(const struct td_exchange *xs, size_t n, struct td_plan *plan, struct td_error *err);
/* Send such a plan, one first, as td_scores_ask. */
int td_scores_send(struct td_scores *s, const struct td_plan *plan, td_scores_send_fn *send, void *arg, struct td_error *err);

/* A word among the server's extras, "prompt_logprobs": got or not, and why. Nothing when it is off. */
void td_scores_extra(const struct td_scores *s, const struct td_api_server *server, struct td_extras *e);

#endif
