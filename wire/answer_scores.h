/* answer_scores.h - the logprobs that a server gives the tokens of the prompt.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_SCORES_H
#define TD_WIRE_ANSWER_SCORES_H

#include <cjson/cJSON.h>

#include "wire/answer_state.h"

/* Read vLLM's `prompt_logprobs`, [null | {"ID": {"logprob", "rank", "decoded_token"}}]. */
void td_answer_read_scores(struct td_answer *a, const cJSON *list);
/* Read SGLang's `input_token_logprobs` [[logprob or null, id, text]] and `input_top_logprobs` [null
 * | [[logprob, id, text]]]. */
void td_answer_read_scores_sglang(struct td_answer *a, const cJSON *triples, const cJSON *tops);
/* Move the logprobs into x, whose prompt_ids name the tokens. Without one for each token of the
 * prompt nothing is moved. TD_OK or TD_ENOMEM. */
int td_answer_finish_scores(const struct td_answer *a, struct td_exchange *x);

#endif
