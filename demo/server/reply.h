/* reply.h - write the JSON of vLLM's answers, streamed or not.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Shapes: vLLM 0.32's CompletionResponse, ChatCompletionResponse and their stream variants; members
 * in vLLM's order. A NaN logprob is null in a stream, and fails an answer that is not streamed, as
 * Python's json does. */
#ifndef TD_DEMO_SERVER_REPLY_H
#define TD_DEMO_SERVER_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "demo/server/engine.h"
#include "demo/server/request.h"
#include "demo/server/tokenizer.h"

struct td_reply {
    const struct td_request *request;  /* borrowed, as are the next three */
    const struct td_tokenizer *tokenizer;
    const char *model, *fingerprint;
    const struct td_token *prompt_scores; /* [n_prompt] of the request, borrowed; NULL: not wanted */
    char id[TD_JOB_ID_MAX];
    int64_t created_s;
    struct td_detok detok;
    int n_tokens;                      /* sent so far */
    int text_offset;                   /* characters of the token strings so far */
};

/* Stream events, "data: {...}\n\n". */
void td_reply_role_event(struct td_reply *r, struct td_buf *out);  /* chat: comes first */
/* token NULL: the request ended without one (abort). finish TD_FINISH_NONE: more will come. */
void td_reply_token_event(struct td_reply *r, const struct td_token *token, enum td_finish finish, struct td_buf *out);
void td_reply_usage_event(struct td_reply *r, struct td_buf *out); /* after the last token, when asked for */
void td_reply_error_event(const struct td_server_error *e, struct td_buf *out);

/* Write an answer that is not streamed. False: it holds NaN; *e is vLLM's error. */
bool td_reply_complete(struct td_reply *r, const struct td_token *tokens, int n,
                       enum td_finish finish, struct td_buf *out, struct td_server_error *e);

#endif
