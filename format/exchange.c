/* exchange.c - write and read an exchange as one JSON line.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "format/base64.h"
#include "format/exchange_numbers.h"
#include "format/records.h"
#include "common/out_of_memory.h"
#include "format/records_json.h"

static const char *const PHASES[] = {"timed", "tapped", "warmup"};
static const char *const KNOWN[] = {"stream", "prompt_id", "category", "repeat", "concurrency", "phase", "api", "method", "path",
    "request", "http_status", "error", "error_kind", "prompt_token_ids", "token_ids", "n_tokens", "ids_complete", "logprobs",
    "top", "top_k", "token_text", "text", "text_base64", "finish_reason", "usage", "t_sent_ns", "t_first_byte_ns", "t_end_ns",
    "events", "scores", "scores_top", "scored_from", NULL};

bool td_exchange_unseen(const struct td_exchange *x)
{
    return x->error_kind && !strcmp(x->error_kind, TD_ERROR_UNSEEN);
}

bool td_exchange_by_others(const struct td_exchange *x)
{
    return td_json_get_i64(x->extra, "group", -1) < 0 && td_json_get_i64(x->extra, "connection", 0) > 0;
}

void td_exchange_release(struct td_exchange *x)
{
    int32_t i;

    for (i = 0; x->token_text && !x->token_text_in_one && i < x->n_tokens; i++)
        free(x->token_text[i]);
    free(x->token_text);
    free(x->prompt_id);
    free(x->category);
    free(x->api);
    free(x->method);
    free(x->path);
    free(x->error);
    free(x->error_kind);
    free(x->prompt_ids);
    free(x->token_ids);
    free(x->logprobs);
    free(x->top);
    free(x->top_at);
    free(x->text);
    free(x->finish_reason);
    free(x->events);
    free(x->scores);
    free(x->scores_top);
    cJSON_Delete(x->request);
    cJSON_Delete(x->extra);
    memset(x, 0, sizeof *x);
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static void put_ints(struct td_jw *w, const char *key, const int32_t *v, int32_t n)
{
    if (v)
        td_jw_i32s(w, key, v, n);
}

static void put_top(struct td_jw *w, const struct td_exchange *x)
{
    int32_t i, j;

    td_jw_i64(w, "top_k", x->top_k);
    td_jw_arr(w, "top");
    for (i = 0; i < x->n_tokens; i++) {
        td_jw_arr(w, NULL);
        for (j = 0; j < x->top_k; j++) {
            const struct td_alt *a = &x->top[(size_t)i * (size_t)x->top_k + (size_t)j];

            td_jw_i64(w, NULL, a->id);
            td_rec_put_float(w, NULL, a->logprob);
        }
        td_jw_end(w);
    }
    td_jw_end(w);
}

/* Is s valid UTF-8, but for json.h's two bytes for NUL? */
static bool is_clean_utf8(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        int len = td_utf8_seq(s + i, n - i);

        if (len <= 0 && n - i >= 2 && !memcmp(s + i, "\xC0\x80", 2))
            len = 2;
        if (len <= 0)
            return false;
        i += (size_t)len;
    }
    return true;
}

static void put_base64(struct td_jw *w, const char *key, const char *s, size_t n)
{
    struct td_buf b = TD_BUF_INIT(TD_JSON_MAX_BYTES);

    td_base64_add(&b, s, n);
    if (b.failed)
        w->out->failed = true;
    td_jw_str(w, key, td_buf_str(&b), b.len);
    td_buf_release(&b);
}

static void put_token_text(struct td_jw *w, const struct td_exchange *x)
{
    int32_t i;

    td_jw_arr(w, "token_text");
    for (i = 0; i < x->n_tokens; i++) {
        const char *s = x->token_text[i];

        if (!s) {
            td_jw_null(w, NULL);
        } else if (is_clean_utf8(s, strlen(s))) {
            td_rec_put_str(w, NULL, s);
        } else {
            td_jw_obj(w, NULL);
            put_base64(w, "base64", s, strlen(s));
            td_jw_end(w);
        }
    }
    td_jw_end(w);
}

static bool is_utf8_text(const char *s, size_t n)
{
    size_t i = 0;
    int len;

    for (; i < n; i += (size_t)len)
        if ((len = td_utf8_seq(s + i, n - i)) <= 0)
            return false;
    return true;
}

static void put_answer(struct td_jw *w, const struct td_exchange *x)
{
    int32_t i;

    put_ints(w, "prompt_token_ids", x->prompt_ids, x->n_prompt_ids);
    td_jw_i64(w, "n_tokens", x->n_tokens);
    put_ints(w, "token_ids", x->token_ids, x->n_tokens);
    td_jw_bool(w, "ids_complete", x->ids_complete);
    if (x->logprobs) {
        td_jw_arr(w, "logprobs");
        for (i = 0; i < x->n_tokens; i++)
            td_rec_put_float(w, NULL, x->logprobs[i]);
        td_jw_end(w);
    }
    if (x->top && x->top_k > 0 && !x->top_summed)
        put_top(w, x);
    if (x->token_text)
        put_token_text(w, x);
    if (x->text) {
        td_jw_str(w, "text", x->text, x->text_len);
        if (!is_utf8_text(x->text, x->text_len))
            put_base64(w, "text_base64", x->text, x->text_len);
    }
    td_rec_put_str(w, "finish_reason", x->finish_reason);
}

static void put_scores(struct td_jw *w, const struct td_exchange *x)
{
    int32_t i;

    if (x->scored_from)
        td_jw_i64(w, "scored_from", x->scored_from);
    if (!x->scores)
        return;
    td_jw_arr(w, "scores");
    for (i = 0; i < x->n_scores; i++)
        td_rec_put_float(w, NULL, x->scores[i]);
    td_jw_end(w);
    td_jw_arr(w, "scores_top");
    for (i = 0; x->scores_top && i < x->n_scores; i++) {
        td_jw_arr(w, NULL);
        td_jw_i64(w, NULL, x->scores_top[i].id);
        td_rec_put_float(w, NULL, x->scores_top[i].logprob);
        td_jw_end(w);
    }
    td_jw_end(w);
}

int td_exchange_write(const struct td_exchange *x, struct td_buf *out)
{
    struct td_jw w;
    int32_t i;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_i64(&w, "stream", x->stream);
    td_rec_put_str(&w, "prompt_id", x->prompt_id);
    td_rec_put_str(&w, "category", x->category);
    td_jw_i64(&w, "repeat", x->repeat);
    td_jw_i64(&w, "concurrency", x->concurrency);
    td_jw_cstr(&w, "phase", PHASES[(unsigned)x->phase < 3 ? x->phase : 0]);
    td_rec_put_str(&w, "api", x->api);
    td_rec_put_str(&w, "method", x->method);
    td_rec_put_str(&w, "path", x->path);
    if (x->request)
        td_jw_value(&w, "request", x->request);
    td_jw_i64(&w, "http_status", x->http_status);
    td_rec_put_str(&w, "error", x->error);
    td_rec_put_str(&w, "error_kind", x->error_kind);
    put_answer(&w, x);
    td_jw_obj(&w, "usage");
    td_jw_i64(&w, "prompt_tokens", x->usage.prompt_tokens);
    td_jw_i64(&w, "completion_tokens", x->usage.completion_tokens);
    td_jw_end(&w);
    td_jw_i64(&w, "t_sent_ns", x->t_sent_ns);
    td_jw_i64(&w, "t_first_byte_ns", x->t_first_byte_ns);
    td_jw_i64(&w, "t_end_ns", x->t_end_ns);
    td_jw_arr(&w, "events");
    for (i = 0; i < x->n_events; i++) {
        td_jw_arr(&w, NULL);
        td_jw_i64(&w, NULL, x->events[i].t_ns);
        td_jw_i64(&w, NULL, x->events[i].n_tokens);
        td_jw_end(&w);
    }
    td_jw_end(&w);
    put_scores(&w, x);
    td_rec_put_extra(&w, x->extra, NULL);
    td_jw_end(&w);
    return out->failed ? TD_ELIMIT : TD_OK;
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static int get_i32(const cJSON *o, const char *key, int32_t missing, int32_t *out, struct td_error *err)
{
    const cJSON *m = td_json_get(o, key);
    int64_t v = m && !cJSON_IsNull(m) ? td_json_i64(m, INT64_MIN) : missing;

    *out = (int32_t)v;
    return v < INT32_MIN || v > INT32_MAX ? td_fail(err, TD_ECORRUPT, "\"%s\" is no 32-bit integer", key) : TD_OK;
}

static int check_count(int64_t n, int32_t want, const char *key, struct td_error *err)
{
    return n == want ? TD_OK
                     : td_fail(err, TD_ECORRUPT, "\"%s\" holds %lld items, n_tokens is %d", key, (long long)n, want);
}

static int read_logprobs(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int64_t n = td_rec_count(o, "logprobs", TD_REC_MAX_TOKENS, err);
    const cJSON *m;
    size_t i = 0;

    if (n < 0 || !cJSON_IsArray(td_json_get(o, "logprobs")))
        return n < 0 ? (int)n : TD_OK;
    if (check_count(n, x->n_tokens, "logprobs", err))
        return TD_ECORRUPT;
    x->logprobs = malloc(((size_t)n + 1) * sizeof *x->logprobs);
    if (!x->logprobs)
        return td_fail(err, TD_ENOMEM, "no memory for logprobs");
    cJSON_ArrayForEach(m, td_json_get(o, "logprobs"))
        if (td_rec_read_logprob(m, "logprobs", &x->logprobs[i++], err))
            return TD_ECORRUPT;
    return TD_OK;
}

static int read_top(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int64_t n = td_rec_count(o, "top", TD_REC_MAX_TOKENS, err);
    const cJSON *row, *m;
    struct td_alt *a;
    int32_t k;

    if (n < 0 || !cJSON_IsArray(td_json_get(o, "top")))
        return n < 0 ? (int)n : TD_OK;
    if (check_count(n, x->n_tokens, "top", err) || get_i32(o, "top_k", 0, &k, err))
        return TD_ECORRUPT;
    if (k < 1 || k > TD_REC_MAX_TOP || n * k > TD_REC_MAX_TOKENS * 4LL)
        return td_fail(err, TD_ELIMIT, "\"top_k\" is %d, of %lld tokens", k, (long long)n);
    if (td_memory_room_record((uint64_t)n * (uint64_t)k * sizeof *x->top, "\"top\"", err))
        return TD_ENOMEM;
    x->top = a = malloc(((size_t)n * (size_t)k + 1) * sizeof *x->top);
    if (!a)
        return td_fail(err, TD_ENOMEM, "no memory for \"top\"");
    x->top_k = k;
    cJSON_ArrayForEach(row, td_json_get(o, "top")) {
        int32_t i = 0;

        cJSON_ArrayForEach(m, row) {
            if (i / 2 >= k)
                return td_fail(err, TD_ECORRUPT, "a row of \"top\" holds more than top_k pairs");
            if (i & 1 && td_rec_read_logprob(m, "top", &a[i / 2].logprob, err))
                return TD_ECORRUPT;
            if (!(i & 1)) {
                a[i / 2].logprob = NAN;
                if (td_rec_read_id(m, "top", &a[i / 2].id, err))
                    return TD_ECORRUPT;
            }
            i++;
        }
        for (i = (i + 1) / 2; i < k; i++)
            a[i] = (struct td_alt){-1, NAN};
        a += k;
    }
    return TD_OK;
}

static int read_token_text(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int64_t n = td_rec_count(o, "token_text", TD_REC_MAX_TOKENS, err);
    const cJSON *m;
    size_t i = 0;

    if (n < 0 || !cJSON_IsArray(td_json_get(o, "token_text")))
        return n < 0 ? (int)n : TD_OK;
    if (check_count(n, x->n_tokens, "token_text", err))
        return TD_ECORRUPT;
    x->token_text = calloc((size_t)n + 1, sizeof *x->token_text);
    cJSON_ArrayForEach(m, td_json_get(o, "token_text")) {
        const char *b64 = td_json_get_str(m, "base64", NULL);
        struct td_buf b = TD_BUF_INIT(TD_JSON_MAX_BYTES);

        if (!x->token_text)
            return td_fail(err, TD_ENOMEM, "no memory for \"token_text\"");
        if (b64 && td_base64_decode(b64, &b)) {
            td_buf_release(&b);
            return td_fail(err, TD_ECORRUPT, "\"token_text\"[%zu]: bad base64", i);
        }
        x->token_text[i++] = b64 ? td_buf_detach(&b, NULL) : cJSON_IsString(m) ? td_strdup(m->valuestring) : NULL;
    }
    return TD_OK;
}

static int read_text(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    const char *b64 = td_json_get_str(o, "text_base64", NULL);
    struct td_buf b = TD_BUF_INIT(TD_JSON_MAX_BYTES);
    int rc = b64 ? td_base64_decode(b64, &b) : td_json_get_bytes(o, "text", &b);

    if (rc == TD_ENOTFOUND)
        return TD_OK;
    if (rc) {
        td_buf_release(&b);
        return td_fail(err, rc == TD_EINVAL ? TD_ECORRUPT : rc, "\"text\" cannot be read");
    }
    x->text = td_buf_detach(&b, &x->text_len);
    return TD_OK;
}

static int read_events(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int64_t n = td_rec_count(o, "events", TD_REC_MAX_TOKENS, err), tokens;
    const cJSON *m;

    if (n <= 0)
        return (int)n;
    x->events = malloc((size_t)n * sizeof *x->events);
    if (!x->events)
        return td_fail(err, TD_ENOMEM, "no memory for \"events\"");
    cJSON_ArrayForEach(m, td_json_get(o, "events")) {
        struct td_token_event *e = &x->events[x->n_events++];

        tokens = td_json_i64(m->child ? m->child->next : NULL, -1);
        e->n_tokens = (int32_t)tokens;
        if (!m->child || td_rec_read_time(m->child, "events", &e->t_ns, err) || tokens < 0 || tokens > x->n_tokens ||
            (x->n_events > 1 && e->t_ns < e[-1].t_ns))
            return td_fail(err, TD_ECORRUPT, "\"events\"[%d] is no time and count of tokens, in order",
                           x->n_events - 1);
    }
    return TD_OK;
}

/* Read the scores: one per token of the prompt; "scores_top" has as many, or is absent. */
static int read_scores(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int64_t n = td_rec_count(o, "scores", TD_REC_MAX_TOKENS, err),
            tops = n < 0 ? n : td_rec_count(o, "scores_top", TD_REC_MAX_TOKENS, err);
    const cJSON *m;
    int32_t i = 0;

    if (n < 0 || tops < 0)
        return (int)(n < 0 ? n : tops);
    if (get_i32(o, "scored_from", 0, &x->scored_from, err) || (n && n != x->n_prompt_ids) ||
        (tops && tops != n) || x->scored_from < 0)
        return td_fail(err, TD_ECORRUPT,
                       "\"scores\" holds %lld items, \"scores_top\" %lld, of %d prompt tokens",
                       (long long)n, (long long)tops, x->n_prompt_ids);
    if (!n)
        return TD_OK;
    x->scores = malloc((size_t)n * sizeof *x->scores);
    x->scores_top = malloc((size_t)n * sizeof *x->scores_top);
    if (!x->scores || !x->scores_top)
        return td_fail(err, TD_ENOMEM, "no memory for \"scores\"");
    x->n_scores = (int32_t)n;
    cJSON_ArrayForEach(m, td_json_get(o, "scores"))
        if (td_rec_read_logprob(m, "scores", &x->scores[i++], err))
            return TD_ECORRUPT;
    for (i = 0; i < n; i++)
        x->scores_top[i] = (struct td_alt){-1, -INFINITY};
    i = 0;
    cJSON_ArrayForEach(m, td_json_get(o, "scores_top")) {
        struct td_alt *top = &x->scores_top[i++];

        top->logprob = NAN;
        if (td_rec_read_id(m->child, "scores_top", &top->id, err) ||
            (m->child && m->child->next && td_rec_read_logprob(m->child->next, "scores_top", &top->logprob, err)))
            return TD_ECORRUPT;
    }
    return TD_OK;
}

static int read_answer(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    int32_t n_ids = 0;
    int rc;

    if ((rc = td_rec_ints(o, "prompt_token_ids", &x->prompt_ids, &x->n_prompt_ids, err)) ||
        (rc = td_rec_ints(o, "token_ids", &x->token_ids, &n_ids, err)) || (rc = get_i32(o, "n_tokens", n_ids, &x->n_tokens, err)))
        return rc;
    if (x->n_tokens < 0 || x->n_tokens > TD_REC_MAX_TOKENS || (x->token_ids && n_ids != x->n_tokens)) {
        x->n_tokens = 0;
        return td_fail(err, TD_ECORRUPT, "\"n_tokens\" does not agree with \"token_ids\"");
    }
    x->ids_complete = td_json_get_bool(o, "ids_complete", false);
    x->finish_reason = td_rec_dup(o, "finish_reason");
    if ((rc = read_logprobs(o, x, err)) || (rc = read_top(o, x, err)) || (rc = read_token_text(o, x, err)) ||
        (rc = read_text(o, x, err)) || (rc = read_scores(o, x, err)))
        return rc;
    return read_events(o, x, err);
}

static int read_figures(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    const cJSON *usage = td_json_get(o, "usage");
    int rc;

    if (!x->error && x->http_status >= 300)
        return td_fail(err, TD_ECORRUPT, "\"http_status\" is %d, and there is no \"error\"", x->http_status);
    if (x->repeat < 0 || x->concurrency < 0 || x->http_status < 0 || x->http_status > 999)
        return td_fail(err, TD_ECORRUPT, "\"repeat\", \"concurrency\" or \"http_status\" is out of its range");
    if ((rc = td_rec_read_usage(usage, "prompt_tokens", &x->usage.prompt_tokens, err)) ||
        (rc = td_rec_read_usage(usage, "completion_tokens", &x->usage.completion_tokens, err)) ||
        (rc = td_rec_read_time(td_json_get(o, "t_sent_ns"), "t_sent_ns", &x->t_sent_ns, err)) ||
        (rc = td_rec_read_time(td_json_get(o, "t_first_byte_ns"), "t_first_byte_ns", &x->t_first_byte_ns, err)))
        return rc;
    return td_rec_read_time(td_json_get(o, "t_end_ns"), "t_end_ns", &x->t_end_ns, err);
}

int td_exchange_read(const cJSON *o, struct td_exchange *x, struct td_error *err)
{
    const cJSON *request = td_json_get(o, "request");
    int64_t stream = td_json_get_i64(o, "stream", -1);
    int rc;

    memset(x, 0, sizeof *x);
    if (!cJSON_IsObject(o) || stream < 0 || stream > UINT32_MAX)
        return td_fail(err, TD_ECORRUPT, "exchange: no object with a \"stream\"");
    x->stream = (uint32_t)stream;
    x->prompt_id = td_rec_dup(o, "prompt_id");
    x->category = td_rec_dup(o, "category");
    x->api = td_rec_dup(o, "api");
    x->method = td_rec_dup(o, "method");
    x->path = td_rec_dup(o, "path");
    x->error = td_rec_dup(o, "error");
    x->error_kind = td_rec_dup(o, "error_kind");
    x->phase = (enum td_phase)td_rec_name(PHASES, 3, td_json_get_str(o, "phase", NULL), TD_PHASE_TIMED);
    x->request = request ? cJSON_Duplicate(request, true) : NULL;
    x->extra = td_rec_extra(o, KNOWN);
    if ((rc = get_i32(o, "repeat", 0, &x->repeat, err)) || (rc = get_i32(o, "concurrency", 0, &x->concurrency, err)) ||
        (rc = get_i32(o, "http_status", 0, &x->http_status, err)) || (rc = read_figures(o, x, err)) ||
        (rc = read_answer(o, x, err))) {
        td_exchange_release(x);
        return td_fail_at(err, "exchange %lld", (long long)stream);
    }
    return TD_OK;
}
