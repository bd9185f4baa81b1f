/* engine.h - the scheduler: many requests, one forward pass at a time over all of them (continuous batching).
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread owns the model. Before each pass it admits waiting jobs, then batches one row for every job that decodes and as much
 * of the prompts as fits; td_step announces the rows. HTTP threads submit jobs and read tokens from them. */
#ifndef TD_DEMO_SERVER_ENGINE_H
#define TD_DEMO_SERVER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "demo/server/llama.h"
#include "demo/server/server_metrics.h"
#include "demo/server/sampler.h"

#define TD_TOP_MAX 20      /* most alternatives of a token (vLLM's --max-logprobs) */
#define TD_JOB_ID_MAX 160
#define TD_WAITING_MAX 4096

/* One generated token. top: the chosen token first, then the n_logprobs likeliest without it, as vLLM orders them. */
struct td_token {
    int32_t id;
    int n_top;
    int rank;                  /* tokens as likely or more; 0: its logprob is NaN, or none was wanted */
    int32_t top_id[TD_TOP_MAX + 1];
    float top_logprob[TD_TOP_MAX + 1]; /* may be NaN */
};

struct td_job_spec {
    const int32_t *prompt;     /* [n_prompt], copied; 1 <= n_prompt, n_prompt + max_tokens <= context */
    int n_prompt, max_tokens, min_tokens;
    bool ignore_eos;
    int n_logprobs;            /* -1: none wanted */
    int n_prompt_logprobs;     /* the same, of the prompt's tokens */
    struct td_sampler sampling;
    const char *id;            /* what the client sees: "cmpl-..." */
};

struct td_engine;
struct td_job;

/* Start the thread. model and metrics are borrowed until close. step_pause_ms: a sleep after each pass (--fault slow). */
int td_engine_open(struct td_engine **out, struct td_llama *model, struct td_server_metrics *metrics, int step_pause_ms, struct td_error *err);
/* No new jobs; those that run end as "abort" at the next pass. For the end of the program, before the HTTP threads are joined. */
void td_engine_stop(struct td_engine *e);
void td_engine_close(struct td_engine *e); /* stop and free; every job must have been released */
/* False after a kernel refused: nothing can be computed any more (vLLM: EngineDeadError). */
bool td_engine_is_alive(struct td_engine *e);

/* NULL: TD_ELIMIT (too many wait), TD_EINTR (stopped, or dead), TD_ENOMEM. */
struct td_job *td_engine_submit(struct td_engine *e, const struct td_job_spec *spec, struct td_error *err);
/* The next token. 1 = *out is filled; 0 = there are no more; TD_ETIMEOUT = none yet. One reader per job. */
int td_job_next(struct td_job *j, struct td_token *out, int timeout_ms);
enum td_finish td_job_finish(struct td_job *j); /* once td_job_next has said 0 or the last token was read; else NONE */
/* [n_prompt] the prompt's tokens with their logprobs (that of the first says nothing), once td_job_next has said 0; NULL: not wanted. Lives
 * as long as the job. */
const struct td_token *td_job_prompt_scores(struct td_job *j);
void td_job_release(struct td_job *j);           /* a job that still runs is aborted */

#endif
