/* exchange_scan.c - read the line of an exchange without a tree of its numbers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/exchange_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/memory.h"
#include "format/exchange_numbers.h"
#include "format/line_scan.h"
#include "format/records_json.h"

#define ROOM_PER_BYTE 4 /* of a line, for the arrays: "0," is 4 bytes of memory, and "[]," of scores_top 8 */

/* p: moves through the line. n_tokens, top_k: -1 until they were read. */
struct scan {
    const char *p, *end;
    int32_t n_tokens, top_k;
    unsigned seen;             /* bits of ARRAYS */
    struct td_exchange x;      /* the arrays so far */
};

/* ---- arrays ----------------------------------------------------------------------------------- */

/* A comma before each element but the first. False: the array does not go on so. */
static bool next_element(struct scan *s, int64_t i)
{
    if (!i)
        return true;
    return *s->p++ == ',';
}

static bool take(struct scan *s, const char *behind)
{
    s->p = behind ? behind : s->p;
    return behind != NULL;
}

/* Memory for n elements, each of which takes 2 bytes of the line or more. NULL: the line is too short, or no memory. */
static void *elements(const struct scan *s, int64_t n, size_t size)
{
    return n > 0 && n <= (s->end - s->p) / 2 ? malloc(((size_t)n + 1) * size) : NULL;
}

/* Elements of an array of numbers, by their commas; it ends before `end`. */
static int64_t count_numbers(const struct scan *s)
{
    const char *p = s->p, *close = memchr(p, ']', (size_t)(s->end - p));
    int64_t n = 1;

    for (; close && p < close; p++)
        n += *p == ',';
    return close && n <= TD_REC_MAX_TOKENS ? n : -1;
}

static bool scan_ints(struct scan *s, int64_t n, int32_t **out)
{
    int64_t i;

    if (*s->p++ != '[' || *out || !(*out = elements(s, n, sizeof **out)))
        return false;
    for (i = 0; i < n; i++)
        if (!next_element(s, i) || !take(s, td_scan_i32(s->p, &(*out)[i])))
            return false;
    return *s->p++ == ']';
}

static bool scan_floats(struct scan *s, int64_t n, float **out)
{
    int64_t i;

    if (*s->p++ != '[' || *out || !(*out = elements(s, n, sizeof **out)))
        return false;
    for (i = 0; i < n; i++)
        if (!next_element(s, i) || !take(s, td_scan_logprob(s->p, &(*out)[i])))
            return false;
    return *s->p++ == ']';
}

static bool scan_counted(struct scan *s, int32_t **out, int32_t *count)
{
    const int64_t n = count_numbers(s);

    *count = (int32_t)n;
    return n > 0 && scan_ints(s, n, out);
}

/* "[7042,-0.25,260,-2.7]": up to k pairs, and the missing ones as -1 and NaN. */
static bool scan_row(struct scan *s, struct td_alt *row, int32_t k)
{
    int32_t j;

    if (*s->p++ != '[')
        return false;
    for (j = 0; j < k && *s->p != ']'; j++)
        if (!next_element(s, j) || !take(s, td_scan_i32(s->p, &row[j].id)) || *s->p++ != ',' ||
            !take(s, td_scan_logprob(s->p, &row[j].logprob)))
            return false;
    for (; j < k; j++)
        row[j] = (struct td_alt){-1, NAN};
    return *s->p++ == ']';
}

static bool scan_top(struct scan *s)
{
    const int64_t n = s->n_tokens, k = s->top_k;
    int64_t i;

    if (*s->p++ != '[' || s->x.top || n < 1 || k < 1 || k > TD_REC_MAX_TOP || n * k > TD_REC_MAX_TOKENS * 4LL || n > (s->end - s->p) / 2 ||
        td_memory_room_record((uint64_t)n * (uint64_t)k * sizeof *s->x.top, "\"top\"", NULL))
        return false;
    s->x.top = malloc((size_t)n * (size_t)k * sizeof *s->x.top);
    for (i = 0; i < n && s->x.top; i++)
        if (!next_element(s, i) || !scan_row(s, s->x.top + i * k, (int32_t)k))
            return false;
    s->x.top_k = (int32_t)k;
    return s->x.top && *s->p++ == ']';
}

/* Each token's text: one piece of memory holds the pointers, then the strings. */
static bool scan_token_text(struct scan *s)
{
    const char *close = td_scan_skip(s->p, s->end);
    const int64_t n = s->n_tokens;
    size_t len;
    char *at;
    int64_t i;

    if (*s->p++ != '[' || s->x.token_text || !close || n < 1 || n > (close - s->p) / 2)
        return false;
    /* a string's quotes are two bytes, and its NUL takes one */
    s->x.token_text = malloc(((size_t)n + 1) * sizeof *s->x.token_text + (size_t)(close - s->p) + 1);
    if (!s->x.token_text)
        return false;
    s->x.token_text_in_one = true;
    at = (char *)(s->x.token_text + n + 1);
    for (i = 0; i < n; i++) {
        if (!next_element(s, i))
            return false;
        s->x.token_text[i] = NULL;
        if (!strncmp(s->p, "null", 4)) {
            s->p += 4;
            continue;
        }
        if (!take(s, td_scan_string(s->p, at, &len)) || memchr(at, '\0', len))
            return false;
        s->x.token_text[i] = at;
        at[len] = '\0';
        at += len + 1;
    }
    return *s->p++ == ']';
}

static bool scan_text(struct scan *s)
{
    const char *close = td_scan_skip(s->p, s->end);
    char *fit;

    if (!close || s->x.text || !(s->x.text = malloc((size_t)(close - s->p) + 1)) ||
        !take(s, td_scan_string(s->p, s->x.text, &s->x.text_len)))
        return false;
    s->x.text[s->x.text_len] = '\0';
    fit = realloc(s->x.text, s->x.text_len + 1);
    if (fit)
        s->x.text = fit;
    return true;
}

/* Room for one more event than n. */
static bool grow_events(struct scan *s, int32_t n, int32_t *cap)
{
    struct td_token_event *grown;

    if (n < *cap)
        return true;
    *cap = *cap ? 2 * *cap : s->n_tokens + 8;
    grown = n < TD_REC_MAX_TOKENS ? realloc(s->x.events, (size_t)*cap * sizeof *grown) : NULL;
    s->x.events = grown ? grown : s->x.events;
    return grown != NULL;
}

/* "[[18699888338615,1],...]": times in order, and counts of tokens. */
static bool scan_events(struct scan *s)
{
    struct td_token_event *e = NULL;
    int32_t n, cap = 0;

    if (*s->p++ != '[' || s->x.events)
        return false;
    for (n = 0; *s->p != ']'; n++) {
        if (!next_element(s, n) || !grow_events(s, n, &cap) || *s->p++ != '[')
            return false;
        e = &s->x.events[n];
        if (!take(s, td_scan_i64(s->p, &e->t_ns)) || *s->p++ != ',' || !take(s, td_scan_i32(s->p, &e->n_tokens)) ||
            *s->p++ != ']' || !td_rec_is_time(e->t_ns) || e->n_tokens < 0 || e->n_tokens > s->n_tokens ||
            (n && e->t_ns < e[-1].t_ns))
            return false;
    }
    s->p++;
    s->x.n_events = n;
    e = n && n < cap ? realloc(s->x.events, (size_t)n * sizeof *e) : NULL;
    s->x.events = e ? e : s->x.events;
    return true;
}

/* "[[7042,-0.25],...]": the likeliest token at each place of the prompt. */
static bool scan_scores_top(struct scan *s)
{
    int32_t i;

    if (*s->p++ != '[' || s->x.scores_top || !(s->x.scores_top = elements(s, s->x.n_scores, sizeof *s->x.scores_top)))
        return false;
    for (i = 0; i < s->x.n_scores; i++)
        if (!next_element(s, i) || *s->p++ != '[' || !take(s, td_scan_i32(s->p, &s->x.scores_top[i].id)) || *s->p++ != ',' ||
            !take(s, td_scan_logprob(s->p, &s->x.scores_top[i].logprob)) || *s->p++ != ']')
            return false;
    return *s->p++ == ']';
}

static bool scan_scores(struct scan *s)
{
    const int64_t n = count_numbers(s);

    s->x.n_scores = (int32_t)n;
    return n > 0 && scan_floats(s, n, &s->x.scores);
}

/* ---- members ---------------------------------------------------------------------------------- */

static bool scan_prompt_ids(struct scan *s)
{
    return scan_counted(s, &s->x.prompt_ids, &s->x.n_prompt_ids);
}

static bool scan_token_ids(struct scan *s)
{
    return scan_ints(s, s->n_tokens, &s->x.token_ids);
}

static bool scan_logprobs(struct scan *s)
{
    return scan_floats(s, s->n_tokens, &s->x.logprobs);
}

static const struct { const char *key; char begins; bool (*scan)(struct scan *s); } ARRAYS[] = {
    {"token_ids", '[', scan_token_ids}, {"logprobs", '[', scan_logprobs}, {"top", '[', scan_top},
    {"token_text", '[', scan_token_text}, {"text", '"', scan_text}, {"events", '[', scan_events},
    {"prompt_token_ids", '[', scan_prompt_ids}, {"scores", '[', scan_scores}, {"scores_top", '[', scan_scores_top}};

static bool is_key(const char *key, size_t n, const char *name)
{
    return strlen(name) == n && !memcmp(name, key, n); /* a key may hold a NUL */
}

/* Read the array that begins here. 1: read; 0: this is none, and the tree gets it; -1: spelt in another way, or there
 * twice. */
static int scan_array(struct scan *s, const char *key, size_t n)
{
    size_t i;

    for (i = 0; i < sizeof ARRAYS / sizeof *ARRAYS && !is_key(key, n, ARRAYS[i].key);)
        i++;
    if (i == sizeof ARRAYS / sizeof *ARRAYS)
        return 0;
    if (s->seen >> i & 1)
        return -1;
    s->seen |= 1u << i;
    if (*s->p != ARRAYS[i].begins || s->p[1] == (*s->p == '[' ? ']' : '"'))
        return 0;
    return ARRAYS[i].scan(s) && (*s->p == ',' || *s->p == '}') ? 1 : -1;
}

/* What the arrays are measured by: it must stand before them, and only once. */
static bool scan_count(struct scan *s, const char *key, size_t n)
{
    int32_t *const out = n == 8 && is_key(key, n, "n_tokens") ? &s->n_tokens : n == 5 && is_key(key, n, "top_k") ? &s->top_k : NULL;

    return !out || (*out == -1 && td_scan_i32(s->p, out) && *out >= 0 && *out <= TD_REC_MAX_TOKENS);
}

/* One member, from its key on. What is no array goes to `rest` as it is. */
static bool scan_member(struct scan *s, struct td_buf *rest)
{
    const char *from = s->p, *key, *close;
    int found;

    if (*s->p++ != '"' || !(close = memchr(key = s->p, '"', (size_t)(s->end - s->p))) || close[1] != ':' ||
        memchr(key, '\\', (size_t)(close - key)))
        return false;
    s->p = close + 2;
    if (!scan_count(s, key, (size_t)(close - key)) || is_key(key, (size_t)(close - key), "text_base64"))
        return false;
    found = scan_array(s, key, (size_t)(close - key));
    if (found)
        return found > 0;
    if (!take(s, td_scan_skip(s->p, s->end)))
        return false;
    if (rest->len > 1)
        td_buf_addc(rest, ',');
    td_buf_add(rest, from, (size_t)(s->p - from));
    return true;
}

static bool scan_line(struct scan *s, struct td_buf *rest)
{
    td_buf_clear(rest);
    td_buf_addc(rest, '{');
    if (*s->p++ != '{')
        return false;
    do
        if (!scan_member(s, rest))
            return false;
    while (*s->p++ == ',');
    td_buf_addc(rest, '}');
    return s->p[-1] == '}' && s->p == s->end && !rest->failed;
}

/* ---- the line --------------------------------------------------------------------------------- */

/* Give the arrays to the exchange that holds all else, and maybe those that the tree got. */
static void move_arrays(struct td_exchange *x, struct td_exchange *out)
{
    if (x->prompt_ids)
        out->prompt_ids = x->prompt_ids, out->n_prompt_ids = x->n_prompt_ids;
    if (x->scores)
        out->scores = x->scores, out->n_scores = x->n_scores, out->scores_top = x->scores_top;
    if (x->token_ids)
        out->token_ids = x->token_ids;
    if (x->logprobs)
        out->logprobs = x->logprobs;
    if (x->top)
        out->top = x->top, out->top_k = x->top_k;
    if (x->token_text)
        out->token_text = x->token_text, out->token_text_in_one = x->token_text_in_one;
    if (x->events)
        out->events = x->events, out->n_events = x->n_events;
    if (x->text)
        out->text = x->text, out->text_len = x->text_len;
    memset(x, 0, sizeof *x);
}

/* Read what is no array. */
static bool read_rest(const struct scan *s, const struct td_buf *rest, struct td_exchange *out)
{
    cJSON *tree = td_json_parse(td_buf_str(rest), rest->len, NULL);
    const bool read = tree && !td_exchange_read(tree, out, NULL);

    cJSON_Delete(tree);
    if (read && (s->n_tokens < 0 || out->n_tokens == s->n_tokens))
        return true;
    if (read)
        td_exchange_release(out);
    return false;
}

bool td_exchange_scan(const char *line, size_t n, struct td_buf *rest, struct td_exchange *out)
{
    struct scan s = {.p = line, .end = line + n, .n_tokens = -1, .top_k = -1};
    const bool fit = n > 2 && !td_memory_room_record(ROOM_PER_BYTE * (uint64_t)n, "a line", NULL) && scan_line(&s, rest) &&
                     !s.x.n_scores == !s.x.scores_top && (!s.x.n_scores || s.x.n_scores == s.x.n_prompt_ids) &&
                     read_rest(&s, rest, out);

    if (fit)
        move_arrays(&s.x, out);
    td_exchange_release(&s.x);
    return fit;
}
