/* collapse.c - NaN, runs, loops: signs that a model no longer computes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/collapse.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/json.h"
#include "wire/api.h"

enum { ZERO_TAIL = 8, ZERO_MIN = 16, RUN_HARD = 32, LOOP_PERIOD = 32, LOOP_TOKENS = 64, CHAR_HARD = 40, BANG_HARD = 24,
       EMPTY_TOKENS = 8, MUTE_TOKENS = 16, MUTE_PER_BYTE = 4, FLAT_MIN_ROWS = 8 };
/* The hard limits of runs and loops are meant for answers of this length and more. */
enum { ASKED_FULL = 128, RUN_FILLED = 12, LOOP_FILLED = 16, LOOP_TIMES = 4 };

static const char *const NAMES[] = {"none", "nan", "token-0", "token-run", "loop", "char-run", "empty", "flat", "end"};

const char *td_collapse_name(enum td_collapse_kind k)
{
    return NAMES[k];
}

struct judged_part {                     /* the part of an answer that is judged */
    const struct td_exchange *x;
    const int32_t *ids;           /* NULL: no ids */
    int32_t n;                    /* tokens up to and with the first end token */
    size_t text_len;              /* bytes of the text that belong to them */
    double scale;                 /* tokens asked for over ASKED_FULL, at most 1; 1: not known */
    struct td_collapse *out;
};

int32_t td_collapse_asked(const cJSON *request)
{
    static const char *const KEYS[] = {"max_tokens", "max_completion_tokens", "n_predict",
                                       "max_new_tokens"};
    const cJSON *in[] = {request, td_json_get(request, "sampling_params")};
    size_t i, k;

    for (i = 0; i < 2; i++)
        for (k = 0; k < sizeof KEYS / sizeof *KEYS; k++) {
            int64_t n = td_json_get_i64(in[i], KEYS[k], 0);

            if (n > 0 && n <= INT32_MAX)
                return (int32_t)n;
        }
    return 0;
}

size_t td_collapse_visible(const char *text, size_t n)
{
    static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* what stands for bytes that are no text */
    size_t i, visible = 0;

    for (i = 0; text && i < n; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (c == 0xEF && n - i >= 3 && !memcmp(text + i, REPLACEMENT, 3))
            i += 2;
        else
            visible += c > ' ' && c != 0x7F;
    }
    return visible;
}

/* A limit in tokens, as far as it falls with the length that was asked for. */
static double scaled(const struct judged_part *k, double limit, double least)
{
    return fmax(least, limit * k->scale);
}

/* Note a sign of collapse. It becomes the finding if it is graver than the one so far. */
static void add_sign(const struct judged_part *k, enum td_collapse_kind kind, double strength,
                     int32_t position, int32_t length, int32_t period, const char *why)
{
    struct td_collapse *o = k->out;
    bool hard = strength >= 1;

    if (strength > o->by_kind[kind])
        o->by_kind[kind] = strength;
    o->fired |= 1u << kind;
    if (o->kind != TD_COLLAPSE_NONE && (o->hard || !hard))
        return;
    o->kind = kind;
    o->hard = hard;
    o->strength = strength;
    o->position = position;
    o->length = length;
    o->period = period;
    snprintf(o->why, sizeof o->why, "%s", why);
}

/* "id 0" or "id 0 ("!")" */
static const char *describe_token(const struct judged_part *k, int32_t i, char *out, size_t n)
{
    const char *text = k->x->token_text ? k->x->token_text[i] : NULL;

    if (text && *text && strlen(text) < 24)
        snprintf(out, n, "token %d (\"%s\")", k->ids ? k->ids[i] : -1, text);
    else
        snprintf(out, n, "token %d", k->ids ? k->ids[i] : -1);
    return out;
}

/* ---- the rules ------------------------------------------------------------------------------------------------------ */

bool td_collapse_error_names_nan(const char *error)
{
    return error && (strcasestr(error, "out of range float values") || strcasestr(error, "probability tensor contains") ||
                     strcasestr(error, "nan in logits") || strcasestr(error, "nans detected"));
}

static void rule_nan(const struct judged_part *k)
{
    const struct td_exchange *x = k->x;
    const struct td_top_sum alts = td_exchange_top_sum(x, k->n);
    int32_t i, bad = 0, first = -1;
    char why[200];

    for (i = 0; x->logprobs && i < k->n; i++)
        if (isnan(x->logprobs[i]) || x->logprobs[i] == INFINITY) {
            first = bad++ ? first : i;
        }
    if (bad) {
        snprintf(why, sizeof why, "NaN or null instead of a logprob for %d of %d tokens, first at token %d", bad, k->n, first);
        add_sign(k, TD_COLLAPSE_NAN, 1 + (double)bad / k->n, first, bad, 0, why);
    } else if (td_collapse_error_names_nan(x->error)) {
        snprintf(why, sizeof why, "the server reports NaN: %.150s", x->error);
        add_sign(k, TD_COLLAPSE_NAN, 2, k->n, 0, 0, why);
    } else if (alts.n_nan) {
        snprintf(why, sizeof why, "NaN or null among the alternatives of token %d (%d in all)", alts.first_nan, alts.n_nan);
        add_sign(k, TD_COLLAPSE_NAN, 0.5, alts.first_nan, alts.n_nan, 0, why);
    }
}

static void rule_token_zero(const struct judged_part *k)
{
    int32_t i, zeros = 0, tail = 0, run = 0, longest = 0, at = 0;
    char why[200], name[64];

    for (i = 0; i < k->n; i++) {
        zeros += k->ids[i] == 0;
        run = k->ids[i] == 0 ? run + 1 : 0;
        if (run > longest) {
            longest = run;
            at = i - run + 1;
        }
    }
    tail = run;
    if (tail >= ZERO_TAIL) {
        snprintf(why, sizeof why, "%s %d times from token %d to the end",
                 describe_token(k, k->n - 1, name, sizeof name), tail, k->n - tail);
        add_sign(k, TD_COLLAPSE_TOKEN_ZERO, (double)tail / ZERO_TAIL, k->n - tail, tail, 1, why);
    } else if (k->n >= ZERO_MIN && zeros * 2 >= k->n) {
        snprintf(why, sizeof why, "token 0 is %d of %d tokens", zeros, k->n);
        add_sign(k, TD_COLLAPSE_TOKEN_ZERO, 2.0 * zeros / k->n, at, zeros, 0, why);
    } else if (longest >= 3) {
        snprintf(why, sizeof why, "token 0 %d times in a row from token %d", longest, at);
        add_sign(k, TD_COLLAPSE_TOKEN_ZERO, (double)longest / (2 * ZERO_TAIL), at, longest, 1, why);
    }
}

/* Count the tokens at the end that repeat with this period, the first period included. */
static int32_t tail_with_period(const int32_t *ids, int32_t n, int32_t period)
{
    int32_t i = n - 1;

    while (i - period >= 0 && ids[i] == ids[i - period])
        i--;
    return n - i - 1 + period;
}

static void rule_token_run(const struct judged_part *k)
{
    int32_t tail = k->n ? tail_with_period(k->ids, k->n, 1) : 0;
    bool filled = tail >= scaled(k, RUN_HARD, RUN_FILLED);
    char why[200], name[64];

    k->out->filled |= filled;
    if (tail < RUN_HARD / 2 && !filled)
        return;
    snprintf(why, sizeof why, "%s %d times from token %d to the end",
             describe_token(k, k->n - 1, name, sizeof name), tail, k->n - tail);
    add_sign(k, TD_COLLAPSE_TOKEN_RUN, (double)tail / RUN_HARD, k->n - tail, tail, 1, why);
}

/* How far a loop of this period at the end is beyond its limits: `tokens` long, and as often as fits
 * into them, but LOOP_TIMES at least. 1: at the limit. */
static double loop_strength(int32_t tail, int32_t period, double tokens)
{
    double times = floor((double)tail / period) / fmax(LOOP_TIMES, tokens / period);

    return fmin(times, tail / tokens);
}

static void rule_loop(const struct judged_part *k)
{
    double best = 0, filled_at = scaled(k, LOOP_TOKENS, LOOP_FILLED);
    int32_t period, best_period = 0, best_tail = 0, run = k->n ? tail_with_period(k->ids, k->n, 1) : 0;
    bool filled;
    char why[200];

    for (period = 2; period <= LOOP_PERIOD && period * 2 <= k->n; period++) {
        int32_t tail;
        double strength;

        if (run >= period)
            continue; /* a run of one token has its own rule */
        tail = tail_with_period(k->ids, k->n, period);
        strength = loop_strength(tail, period, LOOP_TOKENS);
        if (tail >= 2 * period && strength > best * 1.001) { /* the smallest period of equal strength */
            best = strength;
            best_period = period;
            best_tail = tail;
        }
    }
    if (!best_period)
        return;
    filled = loop_strength(best_tail, best_period, filled_at) >= 1;
    k->out->filled |= filled;
    if (best < 0.5 && !filled)
        return;
    snprintf(why, sizeof why, "a loop of %d tokens, %d times from token %d to the end", best_period, best_tail / best_period,
             k->n - best_tail);
    add_sign(k, TD_COLLAPSE_LOOP, best, k->n - best_tail, best_tail, best_period, why);
}

/* Is c a character that ordinary text repeats, in rules, banners, dots, blanks? */
static bool is_rule_char(char c)
{
    return strchr("-=_*#.~+|/\\ \t\n", c) && c;
}

static bool prompt_asks_for(const struct td_exchange *x, char c)
{
    const char *p = td_json_get_str(x->request, "prompt", "");
    int run = 0;

    for (; *p; p++)
        if ((run = *p == c ? run + 1 : 0) >= 4)
            return true;
    return false;
}

/* The index of the token that holds byte `at` of the text; without token_text, `at` itself. */
static int32_t position_of(const struct judged_part *k, size_t at)
{
    size_t sum = 0;
    int32_t i;

    for (i = 0; k->x->token_text && i < k->n; i++) {
        sum += k->x->token_text[i] ? strlen(k->x->token_text[i]) : 0;
        if (sum > at)
            return i;
    }
    return (int32_t)at;
}

static void rule_char_run(const struct judged_part *k)
{
    const char *t = k->x->text;
    size_t n = k->text_len, run = 1;
    double limit;
    bool filled;
    char why[200], c;

    if (!n)
        return;
    c = t[n - 1];
    while (run < n && t[n - 1 - run] == c)
        run++;
    limit = strchr("!?@G", c) && c ? BANG_HARD : is_rule_char(c) ? 2 * CHAR_HARD : CHAR_HARD;
    filled = (double)run >= scaled(k, limit, limit / 2);
    if ((double)run < limit / 2)
        return;
    if (prompt_asks_for(k->x, c)) { /* a warning at most */
        limit = 1.01 * (double)run;
        filled = false;
    }
    k->out->filled |= filled;
    if (isprint((unsigned char)c))
        snprintf(why, sizeof why, "the character \"%c\" %zu times up to the end", c, run);
    else
        snprintf(why, sizeof why, "the byte 0x%02x %zu times up to the end", (unsigned char)c, run);
    add_sign(k, TD_COLLAPSE_CHAR_RUN, (double)run / limit, position_of(k, n - run), (int32_t)run, 1,
             why);
}

static bool blanks(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && isspace((unsigned char)text[i]))
        i++;
    return i == n;
}

/* vLLM's generate answers in token ids, without text. */
static bool has_no_text(const struct td_exchange *x)
{
    return x->path && !strcmp(x->path, TD_API_GENERATE);
}

static void rule_empty(const struct judged_part *k)
{
    int64_t tokens = k->x->usage.completion_tokens > k->n ? k->x->usage.completion_tokens : k->n;
    int64_t visible = (int64_t)td_collapse_visible(k->x->text, k->text_len);
    bool mute = tokens >= MUTE_TOKENS && visible * MUTE_PER_BYTE < tokens;
    char why[200];

    if (tokens < EMPTY_TOKENS || (visible && !mute) || k->x->error || has_no_text(k->x))
        return;
    k->out->filled |= mute || !k->text_len;
    if (visible)
        snprintf(why, sizeof why, "%lld tokens and only %lld visible bytes", (long long)tokens,
                 (long long)visible);
    else
        snprintf(why, sizeof why, "%lld tokens and %s", (long long)tokens,
                 !k->text_len                        ? "no text"
                 : blanks(k->x->text, k->text_len) ? "only blanks"
                                                     : "no text that can be read");
    add_sign(k, TD_COLLAPSE_EMPTY, k->text_len ? 0.5 : (double)tokens / EMPTY_TOKENS, 0,
             (int32_t)tokens, 0, why);
}

static void rule_flat(const struct judged_part *k)
{
    const struct td_top_sum s = td_exchange_top_sum(k->x, k->n);
    char why[200];

    if (s.rows < FLAT_MIN_ROWS || s.flat * 4 < s.rows)
        return;
    snprintf(why, sizeof why, "all alternatives are equally likely at %d of %d tokens", s.flat, s.rows);
    add_sign(k, TD_COLLAPSE_FLAT, 2.0 * s.flat / s.rows, s.first_flat, s.flat, 0, why);
}

/* ---- one answer ----------------------------------------------------------------------------------------------------- */

/* The tokens to judge. With ignore_eos, everything after the first end token is noise. */
static int32_t judged_tokens(const struct td_exchange *x, const struct td_collapse_options *opt)
{
    int32_t i, j;

    if (!opt || !x->token_ids || !td_json_get_bool(x->request, "ignore_eos", false))
        return x->n_tokens;
    for (i = 0; i < x->n_tokens; i++)
        for (j = 0; j < opt->n_eos_ids; j++)
            if (x->token_ids[i] == opt->eos_ids[j])
                return i + 1;
    return x->n_tokens;
}

static size_t judged_text(const struct td_exchange *x, int32_t n)
{
    size_t sum = 0;
    int32_t i;

    if (n == x->n_tokens)
        return x->text ? x->text_len : 0;
    for (i = 0; x->token_text && i < n; i++)
        sum += x->token_text[i] ? strlen(x->token_text[i]) : 0;
    if (!x->token_text) /* without the tokens' text: in proportion */
        sum = (size_t)((double)x->text_len * n / x->n_tokens);
    return sum < x->text_len ? sum : x->text_len;
}

void td_collapse_check(const struct td_exchange *x, const struct td_collapse_options *opt, struct td_collapse *out)
{
    struct judged_part k = {.x = x, .ids = x->token_ids, .n = judged_tokens(x, opt), .out = out};
    int32_t asked = td_collapse_asked(x->request);

    memset(out, 0, sizeof *out);
    k.scale = asked > 0 && asked < ASKED_FULL ? (double)asked / ASKED_FULL : 1;
    k.text_len = judged_text(x, k.n);
    rule_nan(&k);
    if (k.ids) {
        rule_token_zero(&k);
        rule_token_run(&k);
        rule_loop(&k);
    }
    if (!opt || !opt->masked) {
        rule_char_run(&k);
        rule_empty(&k);
    }
    rule_flat(&k);
}

bool td_collapse_check_end(const struct td_exchange *x, struct td_collapse *out)
{
    static const char *const ENDS[] = {"abort", "aborted", "error", "failed", "cancelled", "canceled",
                                       "timeout", "timed_out", "not_finished", "none"};
    struct judged_part k = {.x = x, .out = out};
    char why[200];
    size_t i;

    for (i = 0; x->finish_reason && i < sizeof ENDS / sizeof *ENDS; i++) {
        if (strcasecmp(x->finish_reason, ENDS[i]))
            continue;
        snprintf(why, sizeof why, "it ends after %d tokens, and says \"%.20s\"", x->n_tokens, x->finish_reason);
        memset(out, 0, sizeof *out);
        add_sign(&k, TD_COLLAPSE_END, 1, x->n_tokens, 0, 0, why);
        return true;
    }
    return false;
}

/* How strongly the baseline shows this kind. Runs and loops count as one: a baseline that loops has
 * no text to lose. */
static double excuse_strength(const struct td_collapse *base, enum td_collapse_kind kind)
{
    double most = base->by_kind[kind];
    int k;

    if (kind < TD_COLLAPSE_TOKEN_ZERO || kind > TD_COLLAPSE_CHAR_RUN)
        return most;
    for (k = TD_COLLAPSE_TOKEN_ZERO; k <= TD_COLLAPSE_CHAR_RUN; k++)
        most = base->by_kind[k] > most ? base->by_kind[k] : most;
    return most;
}

bool td_collapse_beyond(const struct td_collapse *c, const struct td_collapse *baseline, size_t n_baseline, char *why_not,
                        size_t why_not_size)
{
    size_t i;

    if (why_not && why_not_size)
        why_not[0] = '\0';
    if (!c->hard) {
        if (why_not)
            snprintf(why_not, why_not_size, c->kind ? "only a warning: %s" : "no sign%s", c->kind ? c->why : "");
        return false;
    }
    for (i = 0; i < n_baseline; i++) {
        double e = excuse_strength(&baseline[i], c->kind);

        if (e >= 1 || e * 2 >= c->strength) {
            if (why_not)
                snprintf(why_not, why_not_size, "the baseline does the same for this prompt: %s", baseline[i].why);
            return false;
        }
    }
    return true;
}
