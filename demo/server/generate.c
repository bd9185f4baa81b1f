/* generate.c - the two endpoints that generate: submit a job, send its tokens as they come or all at once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/out_of_memory.h"
#include "demo/server/reply.h"

#define POLL_MS 100           /* how soon a closed connection is noticed */
#define MAX_CLIENT_ID 128
#define MAX_ANSWER ((size_t)64 << 20)

enum stage { STAGE_ROLE, STAGE_TOKENS, STAGE_USAGE, STAGE_DONE };

/* A request that is being answered. Lives until its answer is complete. */
struct generation {
    struct td_server *server;
    struct td_call *call;
    struct td_request request;
    struct td_reply reply;
    struct td_job *job;
    enum stage stage;         /* of a stream: the next event */
    int n_events;
};

static void generation_free(void *p)
{
    struct generation *g = p;

    td_job_release(g->job);
    td_request_release(&g->request);
    free(g);
}

static bool choose_reply_id(struct generation *g, struct td_server_error *e)
{
    const char *prefix = g->request.chat ? "chatcmpl-" : "cmpl-", *id = td_call_header(g->call, "X-Request-Id");
    unsigned char random[16] = {0};
    size_t at;

    if (id && strlen(id) > MAX_CLIENT_ID)
        return td_server_error_set(e, 400, NULL, "X-Request-Id is longer than %d bytes",
                                   MAX_CLIENT_ID);
    at = (size_t)snprintf(g->reply.id, sizeof g->reply.id, "%s%s", prefix, id ? id : "");
    if (!id && getrandom(random, sizeof random, 0) < 0)
        random[0] = 1;
    for (size_t i = 0; !id && i < sizeof random; i++)
        at += (size_t)snprintf(g->reply.id + at, sizeof g->reply.id - at, "%02x", random[i]);
    return true;
}

/* Fail as vLLM does when its engine has died. */
static bool fail_dead_engine(struct td_server_error *e)
{
    return td_server_error_set(
        e, 500, NULL,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.");
}

static bool start_generation(struct generation *g, struct td_server_error *e)
{
    struct td_server *s = g->server;
    struct td_error err = {0};
    struct td_job_spec spec;

    if (td_fault_refuses(&s->fault, atomic_fetch_add(&s->n_requests, 1) + 1))
        return td_server_error_set(e, 500, NULL, "a fault that was asked for: --fault http500");
    if (!td_request_parse(&g->request, &s->model, g->request.chat, td_buf_str(&g->call->body),
                          g->call->body.len, e) ||
        !choose_reply_id(g, e))
        return false;
    g->reply.request = &g->request;
    g->reply.tokenizer = s->tokenizer;
    g->reply.model = s->model.name;
    g->reply.fingerprint = s->fingerprint;
    g->reply.created_s = td_clock_wall_ns() / TD_NS_PER_S;
    spec = (struct td_job_spec){.prompt = g->request.prompt, .n_prompt = g->request.n_prompt, .max_tokens = g->request.max_tokens,
                                .min_tokens = g->request.min_tokens, .ignore_eos = g->request.ignore_eos,
                                .n_logprobs = g->request.n_logprobs, .n_prompt_logprobs = g->request.n_prompt_logprobs,
                                .sampling = g->request.sampling, .id = g->reply.id};
    g->job = td_engine_submit(s->engine, &spec, &err);
    if (g->job)
        return true;
    return err.code == TD_EINTR ? fail_dead_engine(e)
                                : td_server_error_set(e, 503, NULL, "%s", err.msg);
}

/* ---- streamed ------------------------------------------------------------------------------------------------------ */

/* Wait for a token and write its event. 1 = written, -1 = the client has gone. */
static int next_token_event(struct generation *g, struct td_buf *out)
{
    struct td_server_error e = {0};
    struct td_token token;
    enum td_finish finish;
    int rc;

    while ((rc = td_job_next(g->job, &token, POLL_MS)) < 0)
        if (td_call_is_gone(g->call))
            return -1;
    finish = td_job_finish(g->job);
    if (finish == TD_FINISH_ERROR) {
        fail_dead_engine(&e);
        td_reply_error_event(&e, out);
    } else {
        td_reply_token_event(&g->reply, rc == 1 ? &token : NULL, finish, out);
    }
    if (finish)
        g->stage = g->request.include_usage && finish != TD_FINISH_ERROR ? STAGE_USAGE : STAGE_DONE;
    return 1;
}

/* An event that lacks a part for want of memory is not sent: it would look whole. The connection is cut instead. */
static int next_event(void *p, struct td_buf *out)
{
    const unsigned failed_before = td_out_of_memory_count();
    struct generation *g = p;
    int rc = 1;

    switch (g->stage) {
    case STAGE_ROLE:
        td_reply_role_event(&g->reply, out);
        g->stage = STAGE_TOKENS;
        break;
    case STAGE_TOKENS:
        rc = next_token_event(g, out);
        break;
    case STAGE_USAGE:
        td_reply_usage_event(&g->reply, out);
        g->stage = STAGE_DONE;
        break;
    case STAGE_DONE:
        td_buf_adds(out, "data: [DONE]\n\n");
        rc = 0;
        break;
    }
    out->failed |= td_out_of_memory_count() != failed_before;
    if (rc >= 0 && td_fault_spoil_event(&g->server->fault, g->n_events++, out))
        rc = -1;
    return rc;
}

/* ---- not streamed ---------------------------------------------------------------------------- */

/* Collect all tokens of the job. False: the client has gone, or *e is set. */
static bool collect_tokens(struct generation *g, struct td_token *tokens, int *n,
                    struct td_server_error *e)
{
    int rc;

    for (*n = 0; *n < g->request.max_tokens && (rc = td_job_next(g->job, &tokens[*n], POLL_MS)) != 0;) {
        if (rc == 1)
            (*n)++;
        if (td_call_is_gone(g->call))
            return false;
    }
    return td_job_finish(g->job) != TD_FINISH_ERROR || fail_dead_engine(e);
}

static void answer_complete(struct generation *g)
{
    const unsigned failed_before = td_out_of_memory_count();
    struct td_server_error e = {0};
    struct td_buf out = TD_BUF_INIT(MAX_ANSWER);
    struct td_token *tokens = calloc((size_t)g->request.max_tokens, sizeof *tokens);
    int n;

    if (tokens && collect_tokens(g, tokens, &n, &e)) {
        g->reply.prompt_scores = td_job_prompt_scores(g->job);
        td_reply_complete(&g->reply, tokens, n, td_job_finish(g->job), &out, &e);
    }
    if (!tokens || td_out_of_memory_count() != failed_before)
        td_server_error_set(&e, 500, NULL, "out of memory");
    if (e.status)
        td_server_error_reply(&e, g->call);
    else if (!out.len || td_fault_spoil_body(&g->server->fault, &out))
        /* the client has gone, or a fault was asked for */
        td_call_drop(g->call);
    else
        td_call_reply_json(g->call, 200, &out);
    td_buf_release(&out);
    free(tokens);
}

void td_server_generate(struct td_server *s, struct td_call *c, bool chat)
{
    struct td_server_error e = {0};
    struct generation *g = calloc(1, sizeof *g);

    if (!g) {
        td_call_drop(c);
        return;
    }
    g->server = s;
    g->call = c;
    g->request.chat = chat;
    g->stage = chat ? STAGE_ROLE : STAGE_TOKENS;
    if (!start_generation(g, &e)) {
        td_server_error_reply(&e, c);
        generation_free(g);
    } else if (g->request.stream) {
        td_call_stream(c, next_event, generation_free, g);
    } else {
        answer_complete(g);
        generation_free(g);
    }
}
