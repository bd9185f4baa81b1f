/* answer_alike.c - read an event that equals the one before it but for its text.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/answer_alike.h"

#include <string.h>

#include "common/json.h"
#include "wire/answer.h"
#include "wire/answer_event.h"

enum { MOST_EVENT = 4096, MOST_TEXT = 256, TRIES = 8 };

void td_answer_alike_init(struct td_answer_alike *k)
{
    *k = (struct td_answer_alike){.tries = TRIES};
    td_buf_init(&k->event, 2 * MOST_EVENT);
}

void td_answer_alike_release(struct td_answer_alike *k)
{
    td_buf_release(&k->event);
}

/* ---- an event alike -------------------------------------------------------------------------- */

/* What a short escape of JSON stands for; 0: it is none. */
static char escaped(char c)
{
    switch (c) {
    case '"': case '\\': case '/': return c;
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'b': return '\b';
    case 'f': return '\f';
    default: return 0;
    }
}

/* Read n bytes of a JSON string. Returns how many bytes they stand for; 0: they are not read here. */
static size_t read_string(const char *s, size_t n, char out[MOST_TEXT])
{
    size_t at = 0, len = 0;
    int sequence;

    if (n > MOST_TEXT)
        return 0;
    while (at < n) {
        if (s[at] == '\\') {
            if (at + 1 >= n || !(out[len++] = escaped(s[at + 1])))
                return 0;
            at += 2;
        } else if ((unsigned char)s[at] >= 0x20 && (unsigned char)s[at] < 0x80 && s[at] != '"') {
            out[len++] = s[at++];
        } else {
            sequence = (unsigned char)s[at] < 0x80 ? 0 : td_utf8_seq(s + at, n - at);
            if (sequence <= 0)
                return 0;
            memcpy(out + len, s + at, (size_t)sequence);
            len += (size_t)sequence;
            at += (size_t)sequence;
        }
    }
    return len;
}

static bool read_alike(struct td_answer *a, const struct td_answer_alike *k, const char *data, size_t n, int64_t t_ns)
{
    const size_t behind = k->event.len - k->to;
    char text[MOST_TEXT];
    size_t len;

    if (!k->event.len || n <= k->from + behind || memcmp(data, k->event.data, k->from) != 0 ||
        memcmp(data + n - behind, k->event.data + k->to, behind) != 0)
        return false;
    len = read_string(data + k->from, n - k->from - behind, text);
    if (!len || len > a->text.max - a->text.len)
        return false;
    if (td_buf_add(&a->text, text, len))
        a->limit = true; /* as td_answer_add_text() has it */
    a->reasoning_bytes += k->reasoning ? (int64_t)len : 0;
    td_answer_add_event(a, &(struct td_answer_parts){.any_text = true}, t_ns);
    return true;
}

/* ---- which part of it is the text ------------------------------------------------------------ */

/* Find the string that is the value of `key`, which has its quotes. False: there is none, or it is empty. */
static bool find_string(const char *data, size_t n, const char *key, size_t *from, size_t *to)
{
    const char *at = memmem(data, n, key, strlen(key)), *end = data + n;

    if (!at)
        return false;
    for (at += strlen(key); at < end && (*at == ':' || *at == ' '); at++)
        ;
    if (at == end || *at != '"')
        return false;
    *from = (size_t)(++at - data);
    for (; at < end && *at != '"'; at++)
        at += *at == '\\';
    *to = (size_t)(at - data);
    return at < end && *to > *from;
}

/* Is what td_answer_read() made of two events the two texts, a token each, and nothing that a third one like them
 * could change? */
static bool is_plain(const struct td_answer *a, const char *text)
{
    const bool tokens = a->n_tokens == 2 && a->n_events == 2 && a->ids_missing == 2 && a->logprobs_missing == 2 && !a->n_alts &&
                        !a->tokens[0].text && !a->tokens[1].text;

    return tokens && a->answered && !a->error_kind && !a->limit && !a->counted && !a->other_choices && !a->bad_events && !a->tool_calls &&
           a->text.len == strlen(text) && !memcmp(a->text.data, text, a->text.len);
}

/* Does the event differ from others in the text alone that stands in [k->from, k->to)? Two others are tried, the second
 * of which begins as the first one does: SGLang's repeat the text so far. */
static bool try_others(struct td_answer_alike *k, const char *data, size_t n)
{
    static const char *const TEXTS[] = {"tape", "tapedeck"};
    struct td_buf other = TD_BUF_INIT(2 * MOST_EVENT);
    struct td_answer a;
    bool plain;
    int i;

    td_answer_init(&a);
    for (i = 0; i < 2; i++) {
        td_buf_clear(&other);
        td_buf_add(&other, data, k->from);
        td_buf_adds(&other, TEXTS[i]);
        td_buf_add(&other, data + k->to, n - k->to);
        td_answer_read(&a, td_buf_str(&other), other.len, 0, true);
    }
    plain = is_plain(&a, "tapetapedeck");
    k->reasoning = a.reasoning_bytes != 0;
    plain = plain && (!k->reasoning || a.reasoning_bytes == (int64_t)a.text.len);
    td_answer_release(&a);
    td_buf_release(&other);
    return plain;
}

/* Is this the first of events that are alike? */
static void learn(struct td_answer_alike *k, const char *data, size_t n)
{
    static const char *const KEYS[] = {"\"text\"", "\"content\"", "\"reasoning_content\"", "\"reasoning\""};
    size_t i;

    k->tries--;
    for (i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (find_string(data, n, KEYS[i], &k->from, &k->to) && try_others(k, data, n)) {
            td_buf_add(&k->event, data, n);
            return;
        }
}

void td_answer_read_event(struct td_answer *a, struct td_answer_alike *k, const char *data, size_t n, int64_t t_ns)
{
    const size_t tokens = a->n_tokens, text = a->text.len;
    const int64_t ids = a->ids_missing, logprobs = a->logprobs_missing;

    if (read_alike(a, k, data, n, t_ns)) {
        k->tries = TRIES;
        return;
    }
    td_buf_clear(&k->event);
    td_answer_read(a, data, n, t_ns, true);
    if (k->tries > 0 && n <= MOST_EVENT && a->n_tokens == tokens + 1 && a->text.len > text && a->ids_missing > ids &&
        a->logprobs_missing > logprobs && !a->error_kind)
        learn(k, data, n);
}
