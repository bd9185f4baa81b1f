/* make_fixture.c - write a fixture of streamed answers as a recording of vLLM or llama.cpp has them, for timings of differ.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: make_fixture DIR TEXT [exchanges=10000] [tokens=256] [spelt=0] [changed=0]
 * Each answer is a stretch of the file TEXT, cut into pieces as a tokenizer cuts words. It has token ids, logprobs, five
 * alternatives for each token and an event for each token. spelt=1: also each token's text, as llama.cpp sends it.
 * changed=N: of 1,000 answers N fork from another fixture's of the same arguments, at a token in their middle.
 * The wire itself is left out: differ does not read it. */
#include "common/fs.h"
#include "common/json.h"
#include "tests/helpers/op_writer.h"

#define TOP 5
#define PIECE_MAX 12
#define VOCABULARY 49152

struct text { const char *s; size_t n; };

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* In [0, 1). */
static double uniform(uint64_t *seed)
{
    *seed += 0x9E3779B97F4A7C15u;
    return (double)(mix(*seed) >> 11) * 0x1p-53;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A blank and up to six letters behind it, or one character. Returns its length. */
static size_t piece_at(struct text t, size_t at)
{
    size_t n = 1;

    while (at + n < t.n && (t.s[at + n] & 0xC0) == 0x80) /* the rest of a character */
        n++;
    if (t.s[at] != ' ' && !is_letter(t.s[at]))
        return n;
    while (at + n < t.n && n < 7 && is_letter(t.s[at + n]))
        n++;
    return n;
}

static int32_t id_of(const char *piece, size_t n)
{
    return (int32_t)(td_hash64(piece, n) % VOCABULARY);
}

static size_t start_of(struct text t, uint64_t number)
{
    size_t at = mix(number + 1) % t.n;

    while (at + 1 < t.n && t.s[at] != ' ')
        at++;
    return at;
}

/* Falling logprobs of the alternatives, the chosen one first. */
static void set_row(struct td_exchange *x, int32_t i, uint64_t *seed)
{
    struct td_alt *row = x->top + (size_t)i * TOP;
    double lp = -0.02 - 2 * uniform(seed) * uniform(seed);
    int k;

    x->logprobs[i] = (float)lp;
    for (k = 0; k < TOP; k++) {
        row[k] = (struct td_alt){k ? (int32_t)(uniform(seed) * VOCABULARY) : x->token_ids[i], (float)lp};
        lp -= 0.1 + 1.5 * uniform(seed);
    }
}

/* Tokens, text and alternatives of answer `number`. From token `fork` on it is another stretch. */
static void set_answer(struct td_exchange *x, struct text t, uint64_t number, int32_t fork, char *pieces)
{
    size_t at = start_of(t, number), n;
    uint64_t seed = mix(number);
    int32_t i;

    x->text_len = 0;
    for (i = 0; i < x->n_tokens; i++) {
        if (i == fork)
            at = start_of(t, number + (1u << 30));
        if (at >= t.n)
            at = 0;
        n = piece_at(t, at);
        memcpy(x->text + x->text_len, t.s + at, n);
        x->text_len += n;
        x->token_ids[i] = id_of(t.s + at, n);
        if (x->token_text) {
            x->token_text[i] = pieces + (size_t)i * PIECE_MAX;
            memcpy(x->token_text[i], t.s + at, n);
            x->token_text[i][n] = '\0';
        }
        set_row(x, i, &seed);
        at += n;
    }
}

static void set_times(struct td_exchange *x, int64_t *now_ns, uint64_t *seed)
{
    int32_t i;

    x->t_sent_ns = *now_ns += 1000000;
    x->t_first_byte_ns = *now_ns += 20000000 + (int64_t)(20e6 * uniform(seed));
    for (i = 0; i < x->n_events; i++)
        x->events[i] = (struct td_token_event){*now_ns += 8000000 + (int64_t)(2e6 * uniform(seed)), 1};
    x->t_end_ns = *now_ns += 100000;
}

/* What record asks vLLM for, with a prompt out of the text. */
static cJSON *make_request(struct text t, uint64_t number, int32_t tokens)
{
    char prompt[200];
    const size_t at = start_of(t, number + (2u << 30)), n = t.n - at < 120 ? t.n - at : 120;
    struct td_buf json = TD_BUF_INIT(4096);
    struct td_jw w;
    cJSON *request;

    memcpy(prompt, t.s + at, n);
    td_jw_init(&w, &json, false);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "model", "qwen2.5-1.5b");
    td_jw_str(&w, "prompt", prompt, n);
    td_jw_i64(&w, "max_tokens", tokens);
    td_jw_i64(&w, "temperature", 0);
    td_jw_i64(&w, "top_p", 1);
    td_jw_i64(&w, "seed", 0);
    td_jw_i64(&w, "logprobs", TOP);
    td_jw_bool(&w, "stream", true);
    td_jw_obj(&w, "stream_options");
    td_jw_bool(&w, "include_usage", true);
    td_jw_end(&w);
    td_jw_i64(&w, "top_k", -1);
    td_jw_i64(&w, "min_p", 0);
    td_jw_i64(&w, "repetition_penalty", 1);
    td_jw_bool(&w, "ignore_eos", false);
    td_jw_bool(&w, "return_token_ids", true);
    td_jw_end(&w);
    request = td_json_parse(td_buf_str(&json), json.len, NULL);
    td_buf_release(&json);
    return request;
}

static void allocate(struct td_exchange *x, int32_t tokens, bool spelt)
{
    const size_t n = (size_t)tokens;

    *x = (struct td_exchange){.n_tokens = tokens, .n_events = tokens, .top_k = TOP, .n_prompt_ids = 24, .ids_complete = true};
    x->prompt_ids = calloc(24, sizeof *x->prompt_ids);
    x->token_ids = calloc(n, sizeof *x->token_ids);
    x->logprobs = calloc(n, sizeof *x->logprobs);
    x->top = calloc(n * TOP, sizeof *x->top);
    x->events = calloc(n, sizeof *x->events);
    x->text = malloc(n * PIECE_MAX);
    x->token_text = spelt ? calloc(n, sizeof *x->token_text) : NULL;
    if (!x->prompt_ids || !x->token_ids || !x->logprobs || !x->top || !x->events || !x->text || (spelt && !x->token_text))
        exit(4);
}

static void write_exchanges(struct td_writer *w, struct text t, long exchanges, int32_t tokens, bool spelt, long changed)
{
    static char api[] = "vllm", method[] = "POST", path[] = "/v1/completions", finish[] = "length", category[] = "technical";
    char prompt_id[32], *pieces = malloc((size_t)tokens * PIECE_MAX);
    int64_t now_ns = 267055254965;
    uint64_t seed = 7;
    struct td_exchange x;
    long i;

    allocate(&x, tokens, spelt);
    x.prompt_id = prompt_id, x.api = api, x.method = method, x.path = path, x.finish_reason = finish, x.category = category;
    x.http_status = 200, x.concurrency = 1;
    x.usage = (struct td_usage){x.n_prompt_ids, tokens};
    for (i = 0; i < exchanges; i++) {
        const bool forks = (long)(mix((uint64_t)i + 99) % 1000) < changed;

        snprintf(prompt_id, sizeof prompt_id, "p%05ld", i);
        x.stream = (uint32_t)i + 1;
        x.request = make_request(t, (uint64_t)i, tokens);
        for (int32_t k = 0; k < x.n_prompt_ids; k++)
            x.prompt_ids[k] = (int32_t)(uniform(&seed) * VOCABULARY);
        set_answer(&x, t, (uint64_t)i, forks ? tokens / 2 : -1, pieces);
        set_times(&x, &now_ns, &seed);
        op_writer_check(td_writer_exchange(w, &x), "exchange");
        cJSON_Delete(x.request);
    }
}

int main(int argc, char **argv)
{
    const long exchanges = op_writer_option(argc, argv, "exchanges", 10000), tokens = op_writer_option(argc, argv, "tokens", 256);
    struct td_writer_options opt = {.tool = "record"};
    struct td_buf text = TD_BUF_INIT((size_t)1 << 24);
    struct td_error err = {0};
    struct td_writer *w = NULL;

    if (argc < 3 || exchanges < 1 || tokens < 2 || tokens > 1 << 16) {
        fprintf(stderr, "usage: make_fixture DIR TEXT [exchanges=10000] [tokens=256] [spelt=0] [changed=0]\n");
        return 2;
    }
    if (td_fs_read(argv[2], (size_t)1 << 24, &text, &err) || text.len < 4096 || td_writer_create(argv[1], &opt, &w, &err)) {
        fprintf(stderr, "make_fixture: %s\n", *err.msg ? err.msg : "the text is too short");
        return 4;
    }
    td_writer_fact_str(w, "server", "model", "qwen2.5-1.5b");
    td_writer_fact_num(w, "sampling", "temperature", 0);
    write_exchanges(w, (struct text){td_buf_str(&text), text.len}, exchanges, (int32_t)tokens,
                    op_writer_option(argc, argv, "spelt", 0) != 0, op_writer_option(argc, argv, "changed", 0));
    if (td_writer_close(w, "complete", &err)) {
        fprintf(stderr, "make_fixture: %s\n", err.msg);
        return 4;
    }
    return 0;
}
