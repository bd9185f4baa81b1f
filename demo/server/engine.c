/* engine.c - the scheduler thread and the jobs it shares with the HTTP threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "demo/server/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "kernels/abi/td_gptq.h"

/* Everything but the constants of a job is guarded by the engine's lock. A job is freed when both sides have let go. */
struct td_job {
    struct td_engine *engine;
    struct td_job *next;
    /* constant */
    uint64_t number;
    char id[TD_JOB_ID_MAX];
    int32_t *prompt;
    int n_prompt, max_tokens, min_tokens, n_logprobs, n_prompt_logprobs;
    bool ignore_eos;
    int64_t t_submit_ns;
    /* the scheduler's */
    struct td_sampler sampling;
    int slot;               /* -1 while waiting */
    int n_computed;         /* tokens whose K and V are cached */
    int n_rows;             /* of the pass that runs */
    int64_t t_last_ns;      /* of the last token */
    /* shared */
    struct td_token *token; /* [max_tokens] */
    struct td_token *score; /* [n_prompt], or NULL */
    int n_tokens, n_read;
    enum td_finish finish;
    bool reader_gone, scheduler_gone;
    pthread_cond_t changed;
};

struct td_engine {
    struct td_llama *model;
    struct td_server_metrics *metrics;
    int step_pause_ms;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct td_job *waiting, **waiting_end; /* in order of arrival */
    int n_waiting, n_running;
    struct td_job **slot;                  /* [max_slots]: the running jobs */
    bool stop, dead;
    uint64_t n_jobs, n_steps;
    /* scratch of a pass */
    struct td_llama_row *row;
    struct td_step_span *span;
    struct td_job **span_job;
    int n_rows, n_spans;
    float *logits, *work_row, *logprob;
};

static void job_free(struct td_job *j)
{
    pthread_cond_destroy(&j->changed);
    free(j->prompt);
    free(j->token);
    free(j->score);
    free(j);
}

/* The scheduler is done with a job. Under the lock. */
static void finish_job(struct td_engine *e, struct td_job *j, enum td_finish finish)
{
    j->finish = finish;
    j->scheduler_gone = true;
    if (j->slot >= 0) {
        e->slot[j->slot] = NULL;
        e->n_running--;
    }
    td_server_metrics_add_finished(e->metrics, finish);
    td_server_metrics_add_time(e->metrics, TD_TIME_E2E, td_clock_mono_ns() - j->t_submit_ns);
    pthread_cond_broadcast(&j->changed);
    if (j->reader_gone)
        job_free(j);
}

/* ---- what runs in the next pass ---------------------------------------------------------------------------------- */

/* Drop jobs that nobody reads any more, then fill free slots from the queue. Under the lock. */
static void admit(struct td_engine *e)
{
    for (int s = 0; s < e->model->max_slots; s++)
        if (e->slot[s] && e->slot[s]->reader_gone)
            finish_job(e, e->slot[s], TD_FINISH_ABORT);
    for (struct td_job **at = &e->waiting, *j; (j = *at);) {
        if (!j->reader_gone) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        e->n_waiting--;
        finish_job(e, j, TD_FINISH_ABORT);
    }
    for (int s = 0; s < e->model->max_slots && e->waiting; s++) {
        if (e->slot[s])
            continue;
        struct td_job *j = e->waiting;
        e->waiting = j->next;
        e->n_waiting--;
        e->slot[s] = j;
        e->n_running++;
        j->slot = s;
    }
    e->waiting_end = &e->waiting;
    while (*e->waiting_end)
        e->waiting_end = &(*e->waiting_end)->next;
    td_server_metrics_set_queue(e->metrics, e->n_running, e->n_waiting);
}

static void add_span(struct td_engine *e, struct td_job *j, int n_rows)
{
    bool decode = j->n_computed >= j->n_prompt;

    e->span[e->n_spans] = (struct td_step_span){
        .request = j->number, .id = j->id, .first_row = e->n_rows, .n_rows = n_rows, .position = j->n_computed, .decode = decode};
    e->span_job[e->n_spans++] = j;
    j->n_rows = n_rows;
    for (int i = 0; i < n_rows; i++) {
        int position = j->n_computed + i;
        e->row[e->n_rows++] = (struct td_llama_row){
            .token = decode ? j->token[j->n_tokens - 1].id : j->prompt[position], .slot = j->slot, .position = position,
            .wants_logits = decode || j->score || position == j->n_prompt - 1};
    }
}

/* Decoding rows first, then prompts in what room is left, both in order of slots. Under the lock. */
static void build_batch(struct td_engine *e)
{
    e->n_rows = e->n_spans = 0;
    for (int prefill = 0; prefill < 2; prefill++)
        for (int s = 0; s < e->model->max_slots; s++) {
            struct td_job *j = e->slot[s];
            int room = e->model->max_rows - e->n_rows, left;
            if (!j || room <= 0 || (j->n_computed < j->n_prompt) != (prefill == 1))
                continue;
            left = prefill ? j->n_prompt - j->n_computed : 1;
            add_span(e, j, left < room ? left : room);
        }
}

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

/* n_logprobs: -1 none. */
static void fill_top(struct td_engine *e, int n_logprobs, struct td_token *t, const float *logits)
{
    int vocab = e->model->cfg.vocab_size, n;
    int32_t index[TD_TOP_MAX];

    t->n_top = 0;
    if (n_logprobs < 0)
        return;
    td_sampler_logprobs(logits, vocab, e->logprob);
    n = td_sampler_top(e->logprob, vocab, n_logprobs, index);
    t->rank = 0;
    for (int i = 0; i < vocab; i++)
        t->rank += e->logprob[i] >= e->logprob[t->id];
    t->top_id[t->n_top++] = t->id;
    for (int i = 0; i < n; i++)
        if (index[i] != t->id)
            t->top_id[t->n_top++] = index[i];
    for (int i = 0; i < t->n_top; i++)
        t->top_logprob[i] = e->logprob[t->top_id[i]];
}

/* Choose the next token of a job from its logits and hand it over. Under the lock. */
static void take_token(struct td_engine *e, struct td_job *j, const float *logits, int64_t now_ns)
{
    int eos = e->model->cfg.eos_token_id;
    struct td_token *t = &j->token[j->n_tokens];

    t->id = td_sampler_pick(&j->sampling, logits, e->model->cfg.vocab_size, j->n_tokens < j->min_tokens ? eos : -1, e->work_row);
    fill_top(e, j->n_logprobs, t, logits);
    td_server_metrics_add_time(e->metrics, j->n_tokens ? TD_TIME_ITL : TD_TIME_TTFT, now_ns - (j->n_tokens ? j->t_last_ns : j->t_submit_ns));
    td_server_metrics_add_tokens(e->metrics, j->n_tokens ? 0 : j->n_prompt, 1);
    j->t_last_ns = now_ns;
    j->n_tokens++;
    if (t->id == eos && !j->ignore_eos)
        finish_job(e, j, TD_FINISH_STOP);
    else if (j->n_tokens == j->max_tokens)
        finish_job(e, j, TD_FINISH_LENGTH);
    else
        pthread_cond_broadcast(&j->changed);
}

/* What rows of a prompt say of the tokens that follow them. Returns the logits behind those that were used. */
static const float *take_scores(struct td_engine *e, struct td_job *j, const struct td_step_span *span, const float *logits)
{
    for (int i = 0; i < span->n_rows; i++) {
        int position = span->position + i;
        if (position + 1 >= j->n_prompt)
            break;
        j->score[position + 1].id = j->prompt[position + 1];
        fill_top(e, j->n_prompt_logprobs, &j->score[position + 1], logits);
        logits += e->model->cfg.vocab_size;
    }
    return logits;
}

static void take_results(struct td_engine *e)
{
    int64_t now_ns = td_clock_mono_ns();
    const float *logits = e->logits;

    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < e->n_spans; i++) {
        struct td_job *j = e->span_job[i];
        const struct td_llama_row *last = &e->row[e->span[i].first_row + e->span[i].n_rows - 1];
        j->n_computed += j->n_rows;
        if (j->score)
            logits = take_scores(e, j, &e->span[i], logits);
        if (!last->wants_logits || j->n_computed < j->n_prompt)
            continue;
        take_token(e, j, logits, now_ns);
        logits += e->model->cfg.vocab_size;
    }
    pthread_mutex_unlock(&e->lock);
}

static void die(struct td_engine *e, const struct td_error *err)
{
    td_log(TD_LOG_ERROR, "engine", "the engine is dead: %s", err->msg);
    pthread_mutex_lock(&e->lock);
    e->dead = true;
    pthread_mutex_unlock(&e->lock);
}

static void run_pass(struct td_engine *e)
{
    struct td_error err = {0};
    struct td_step_args step = {.struct_size = sizeof step, .n_spans = e->n_spans, .step = e->n_steps++, .spans = e->span};

    td_step(&step);
    if (td_llama_forward(e->model, e->row, e->n_rows, e->logits, &err)) {
        die(e, &err);
        return;
    }
    if (e->step_pause_ms > 0)
        td_clock_sleep_until(td_clock_mono_ns() + e->step_pause_ms * TD_NS_PER_MS);
    take_results(e);
}

/* End every job. Under the lock. */
static void end_all(struct td_engine *e, enum td_finish finish)
{
    for (int s = 0; s < e->model->max_slots; s++)
        if (e->slot[s])
            finish_job(e, e->slot[s], finish);
    while (e->waiting) {
        struct td_job *j = e->waiting;
        e->waiting = j->next;
        finish_job(e, j, finish);
    }
    e->waiting_end = &e->waiting;
    e->n_waiting = 0;
    td_server_metrics_set_queue(e->metrics, 0, 0);
}

static void *scheduler(void *arg)
{
    struct td_engine *e = arg;

    pthread_mutex_lock(&e->lock);
    while (!e->stop && !e->dead) {
        admit(e);
        if (e->n_running == 0) {
            pthread_cond_wait(&e->work, &e->lock);
            continue;
        }
        build_batch(e);
        pthread_mutex_unlock(&e->lock);
        run_pass(e);
        pthread_mutex_lock(&e->lock);
    }
    end_all(e, e->dead ? TD_FINISH_ERROR : TD_FINISH_ABORT);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

int td_engine_open(struct td_engine **out, struct td_llama *model, struct td_server_metrics *metrics, int step_pause_ms, struct td_error *err)
{
    struct td_engine *e = calloc(1, sizeof *e);
    size_t slots = (size_t)model->max_slots, rows = (size_t)model->max_rows, vocab = (size_t)model->cfg.vocab_size;

    *out = NULL;
    if (!e)
        return td_fail(err, TD_ENOMEM, "out of memory");
    e->model = model;
    e->metrics = metrics;
    e->step_pause_ms = step_pause_ms;
    e->waiting_end = &e->waiting;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->work, NULL);
    e->slot = calloc(slots, sizeof *e->slot);
    e->row = calloc((size_t)model->max_rows, sizeof *e->row);
    e->span = calloc(slots, sizeof *e->span);
    e->span_job = calloc(slots, sizeof *e->span_job);
    e->logits = calloc((rows > slots ? rows : slots) * vocab, /* of a prompt that is scored, every row has some */
                        sizeof *e->logits);
    e->work_row = calloc(vocab, sizeof *e->work_row);
    e->logprob = calloc(vocab, sizeof *e->logprob);
    if (!e->slot || !e->row || !e->span || !e->span_job || !e->logits || !e->work_row || !e->logprob) {
        td_engine_close(e);
        return td_fail(err, TD_ENOMEM, "out of memory");
    }
    if (pthread_create(&e->thread, NULL, scheduler, e)) {
        td_engine_close(e);
        return td_fail(err, TD_EIO, "cannot start the scheduler's thread");
    }
    e->has_thread = true;
    *out = e;
    return TD_OK;
}

void td_engine_stop(struct td_engine *e)
{
    if (!e || !e->has_thread)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    e->has_thread = false;
}

void td_engine_close(struct td_engine *e)
{
    if (!e)
        return;
    td_engine_stop(e);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->work);
    free(e->slot);
    free(e->row);
    free(e->span);
    free(e->span_job);
    free(e->logits);
    free(e->work_row);
    free(e->logprob);
    free(e);
}

bool td_engine_is_alive(struct td_engine *e)
{
    bool alive;

    pthread_mutex_lock(&e->lock);
    alive = !e->dead && !e->stop;
    pthread_mutex_unlock(&e->lock);
    return alive;
}

static struct td_job *job_new(struct td_engine *e, const struct td_job_spec *spec)
{
    struct td_job *j = calloc(1, sizeof *j);
    pthread_condattr_t attr;

    if (!j)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->changed, &attr);
    pthread_condattr_destroy(&attr);
    j->engine = e;
    j->slot = -1;
    j->n_prompt = spec->n_prompt;
    j->max_tokens = spec->max_tokens;
    j->min_tokens = spec->min_tokens;
    j->ignore_eos = spec->ignore_eos;
    j->n_logprobs = spec->n_logprobs;
    j->n_prompt_logprobs = spec->n_prompt_logprobs;
    j->sampling = spec->sampling;
    j->t_submit_ns = td_clock_mono_ns();
    strncpy(j->id, spec->id, sizeof j->id - 1);
    j->prompt = malloc((size_t)spec->n_prompt * sizeof *j->prompt);
    j->token = malloc((size_t)spec->max_tokens * sizeof *j->token);
    if (spec->n_prompt_logprobs >= 0)
        j->score = calloc((size_t)spec->n_prompt, sizeof *j->score);
    if (!j->prompt || !j->token || (spec->n_prompt_logprobs >= 0 && !j->score)) {
        job_free(j);
        return NULL;
    }
    memcpy(j->prompt, spec->prompt, (size_t)spec->n_prompt * sizeof *j->prompt);
    return j;
}

struct td_job *td_engine_submit(struct td_engine *e, const struct td_job_spec *spec, struct td_error *err)
{
    struct td_job *j = job_new(e, spec);
    int code = TD_OK;

    if (!j) {
        td_fail(err, TD_ENOMEM, "out of memory");
        return NULL;
    }
    pthread_mutex_lock(&e->lock);
    if (e->dead || e->stop)
        code = TD_EINTR;
    else if (e->n_waiting >= TD_WAITING_MAX)
        code = TD_ELIMIT;
    else {
        j->number = e->n_jobs++;
        *e->waiting_end = j;
        e->waiting_end = &j->next;
        e->n_waiting++;
        td_server_metrics_set_queue(e->metrics, e->n_running, e->n_waiting);
        pthread_cond_signal(&e->work);
    }
    pthread_mutex_unlock(&e->lock);
    if (!code)
        return j;
    job_free(j);
    td_fail(err, code, code == TD_ELIMIT ? "%d requests wait already" : "the engine has stopped", TD_WAITING_MAX);
    return NULL;
}

int td_job_next(struct td_job *j, struct td_token *out, int timeout_ms)
{
    int64_t deadline_ns = td_clock_mono_ns() + timeout_ms * TD_NS_PER_MS;
    struct timespec until = {.tv_sec = deadline_ns / TD_NS_PER_S, .tv_nsec = deadline_ns % TD_NS_PER_S};
    int rc = 0;

    pthread_mutex_lock(&j->engine->lock);
    while (j->n_read == j->n_tokens && !j->finish && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&j->changed, &j->engine->lock, &until);
    if (j->n_read < j->n_tokens) {
        *out = j->token[j->n_read++];
        rc = 1;
    } else {
        rc = j->finish ? 0 : TD_ETIMEOUT;
    }
    pthread_mutex_unlock(&j->engine->lock);
    return rc;
}

enum td_finish td_job_finish(struct td_job *j)
{
    enum td_finish finish;

    pthread_mutex_lock(&j->engine->lock);
    finish = j->n_read == j->n_tokens ? j->finish : TD_FINISH_NONE;
    pthread_mutex_unlock(&j->engine->lock);
    return finish;
}

const struct td_token *td_job_prompt_scores(struct td_job *j)
{
    return j->score;
}

void td_job_release(struct td_job *j)
{
    struct td_engine *e;

    if (!j)
        return;
    e = j->engine;
    pthread_mutex_lock(&e->lock);
    j->reader_gone = true;
    if (j->scheduler_gone)
        job_free(j);
    else
        pthread_cond_signal(&e->work); /* a waiting job is dropped at once, a running one after the pass */
    pthread_mutex_unlock(&e->lock);
}
