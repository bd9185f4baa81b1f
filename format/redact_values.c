/* redact_values.c - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "format/base64.h"
#include "format/credentials.h"
#include "format/redact_stars.h"
#include "format/secret_names.h"
#include "format/spelling.h"

#define LEAST 8
#define LEAST_OF_A_KEY 20
#define LEAST_CUT 4
#define MOST_NEEDLES 4096
#define MOST_VALUE (1u << 20)
#define MOST_OTHERS 64 /* characters in a run that is no ASCII */

/* ---- what is looked for ------------------------------------------------------------------------ */

static bool looks_like_key(const char *s, size_t n)
{
    bool digit = false, letter = false;
    size_t i;

    for (i = 0; i < n; i++) {
        digit |= isdigit((unsigned char)s[i]) != 0;
        letter |= isalpha((unsigned char)s[i]) != 0;
        if (s[i] == ' ' || s[i] == '\t')
            return false;
    }
    return n >= LEAST_OF_A_KEY && digit && letter;
}

/* Add a needle, unless it is there. c : taken */
static int add(struct td_redact_values *v, uint8_t *c, size_t n, bool bytes, struct td_error *err)
{
    int at;

    for (at = v->head[*c]; at >= 0; at = v->needle[at].next)
        if (v->needle[at].n == n && v->needle[at].bytes == bytes && !memcmp(v->needle[at].c, c, n)) {
            free(c);
            return TD_OK;
        }
    if (td_array_grow(&v->needle, v->n, &v->cap, sizeof *v->needle, MOST_NEEDLES)) {
        free(c);
        return td_fail(err, TD_ELIMIT, "redaction: too many secret headers");
    }
    v->needle[v->n] = (struct td_redact_needle){c, n, bytes, v->head[*c]};
    v->head[*c] = (int)v->n++;
    return TD_OK;
}

/* Add a text as td_spelled() reads it; where that may lose it, also as it is. */
static int add_text(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    uint8_t *read = malloc(n), *as_is = read ? malloc(n) : NULL;
    size_t at = 0, len = 0;
    int c, rc = TD_OK;

    if (!as_is) {
        free(read);
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    }
    memcpy(as_is, s, n);
    while ((c = td_spelled(s, n, &at, false)) >= 0)
        if (c != TD_SPELLED_OTHER || !len || read[len - 1] != TD_SPELLED_OTHER)
            read[len++] = (uint8_t)c;
    if (at < n || len < n)
        rc = add(v, as_is, n, true, err);
    else
        free(as_is);
    if (!rc && len >= LEAST)
        return add(v, read, len, false, err);
    free(read);
    return rc;
}

/* Add the hexadecimal digits of a value. */
static int add_hex(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    static const char HEX[] = "0123456789abcdef";
    struct td_buf b = TD_BUF_INIT(MOST_VALUE);
    size_t i;
    int rc;

    for (i = 0; i < n; i++) {
        td_buf_addc(&b, HEX[(unsigned char)s[i] >> 4]);
        td_buf_addc(&b, HEX[(unsigned char)s[i] & 15]);
    }
    rc = b.failed ? td_fail(err, TD_ENOMEM, "redaction: out of memory") : add_text(v, b.data, b.len, err);
    td_buf_release(&b);
    return rc;
}

/* Add a value as base64 spells it behind so many bytes (modulo 3), as "user:": the digits that hold nothing
 * but the value. Those beside them hold at most four bits of its first and last byte. */
static int add_base64(struct td_redact_values *v, const char *s, size_t n, size_t before, struct td_error *err)
{
    size_t from = (before * 8 + 5) / 6, to = (before + n) * 8 / 6, i;
    struct td_buf in = TD_BUF_INIT(MOST_VALUE), out = TD_BUF_INIT(2 * MOST_VALUE);
    int rc;

    td_buf_add(&in, "\0\0", before);
    td_buf_add(&in, s, n);
    if (!in.failed)
        td_base64_add(&out, in.data, in.len);
    rc = in.failed || out.failed ? td_fail(err, TD_ENOMEM, "redaction: out of memory") : add_text(v, out.data + from, to - from, err);
    for (i = from; !rc && i < to; i++)
        out.data[i] = out.data[i] == '+' ? '-' : out.data[i] == '/' ? '_' : out.data[i]; /* URL-safe */
    if (!rc)
        rc = add_text(v, out.data + from, to - from, err);
    td_buf_release(&in);
    td_buf_release(&out);
    return rc;
}

/* Add a value in all its forms. */
static int add_value(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    int rc = add_text(v, s, n, err);
    size_t before;

    for (before = 0; !rc && before < 3; before++)
        rc = add_base64(v, s, n, before, err);
    return rc ? rc : add_hex(v, s, n, err);
}

/* What "Basic" credentials of n bytes say: "user:password", and the password. */
static int add_basic(struct td_redact_values *v, const char *base64, size_t n, struct td_error *err)
{
    struct td_buf in = TD_BUF_INIT(MOST_VALUE), b = TD_BUF_INIT(MOST_VALUE);
    const char *password;
    int rc = TD_OK;

    td_buf_add(&in, base64, n);
    for (; n % 4; n++)
        td_buf_addc(&in, '=');
    td_buf_str(&in);
    if (in.failed)
        rc = td_fail(err, TD_ENOMEM, "redaction: out of memory");
    else if (!td_base64_decode(in.data, &b) && b.len >= LEAST) {
        rc = add_text(v, b.data, b.len, err);
        password = memchr(b.data, ':', b.len);
        if (!rc && password && (size_t)(b.data + b.len - ++password) >= LEAST)
            rc = add_value(v, password, (size_t)(b.data + b.len - password), err);
    }
    td_buf_release(&in);
    td_buf_release(&b);
    return rc;
}

/* Add the parts that look like a key: of cookies, of "Digest" and "AWS4-HMAC-SHA256" credentials. */
static int add_parts(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    size_t at, len;
    int rc = TD_OK;

    for (at = 0; !rc && at < n; at += len + 1) {
        len = strcspn(s + at, " \t;,=\"");
        len = len < n - at ? len : n - at;
        if (len < n && looks_like_key(s + at, len))
            rc = add_value(v, s + at, len, err);
    }
    return rc;
}

/* Add the value of a header of a secret's name. */
static int add_secret(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    const size_t key = td_credentials_key(s, n);
    struct td_credential one;
    size_t at = 0;
    int rc;

    if (n - key < LEAST)
        rc = add_value(v, s, n, err);
    else if (!(rc = add_text(v, s, n, err)) && !(rc = add_value(v, s + key, n - key, err)) && td_credentials_basic(s, n))
        rc = add_basic(v, s + key, n - key, err);
    while (!rc && td_credentials_next(s, n, &at, &one))
        if (one.n >= LEAST)
            rc = add_value(v, one.s, one.n, err);
    return rc;
}

/* Add what a header's value holds, of n bytes, with a NUL or blanks behind them.
 * named : its name is a secret's */
static int add_header_value(struct td_redact_values *v, const char *s, size_t n, bool named, struct td_error *err)
{
    const int rc = named ? add_secret(v, s, n, err) : add_value(v, s, n, err);

    return rc ? rc : add_parts(v, s, n, err);
}

static void note(uint8_t row[32], int b)
{
    row[b / 8] |= (uint8_t)(1 << b % 8);
}

static void note_all(uint8_t row[32], const char *bytes)
{
    for (; *bytes; bytes++)
        note(row, *bytes);
}

/* Behind the byte a stands the character c, or an escape of it. */
static void note_next(uint8_t row[32], int c)
{
    int b;

    note(row, c);
    note(row, toupper(c));
    note_all(row, c == ' ' ? "+\\%&" : "\\%&");
    for (b = 0x80; b < 256 && c == TD_SPELLED_OTHER; b++)
        note(row, b);
}

static void note_pair(uint8_t pair[256][32], int c1, int c2)
{
    int a;

    note_next(pair[c1], c2);
    note_next(pair[toupper(c1)], c2);
    if (c1 == ' ')
        note_next(pair['+'], c2);
    for (a = 0x80; a < 256 && c1 == TD_SPELLED_OTHER; a++)
        memset(pair[a], 0xff, sizeof pair[a]);
}

/* Note with which bytes needles may begin, in whatever spelling: few places of a text have such. */
static void note_beginnings(struct td_redact_values *v)
{
    const char *escape;
    size_t i;

    for (i = 0; i < v->n; i++) {
        const struct td_redact_needle *needle = &v->needle[i];

        if (needle->bytes) {
            note(v->pair[0][needle->c[0]], needle->c[1]);
            note(v->pair[1][needle->c[1]], needle->c[2]);
        } else {
            note_pair(v->pair[0], needle->c[0], needle->c[1]);
            note_pair(v->pair[1], needle->c[1], needle->c[2]);
            note_next(v->pair[0]['\\'], needle->c[0]);
        }
    }
    if (!v->n)
        return;
    note_all(v->pair[0]['\\'], "uxUX");
    note_all(v->pair[0]['%'], "0123456789abcdefABCDEF");
    note_all(v->pair[0]['&'], "#aglq");
    for (escape = "\\%&"; *escape; escape++)
        memset(v->pair[1][(uint8_t)*escape], 0xff, sizeof v->pair[1][0]);
}

int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err)
{
    int rc = TD_OK, c;

    memset(v, 0, sizeof *v);
    for (c = 0; c < 256; c++)
        v->head[c] = -1;
    for (; !rc && headers && *headers; headers++) {
        const char *colon = strchr(*headers, ':'), *s = colon ? colon + 1 : "";
        bool named = colon && td_secret_header(*headers, (size_t)(colon - *headers));
        size_t n;

        s += strspn(s, " \t");
        for (n = strlen(s); n && (s[n - 1] == ' ' || s[n - 1] == '\t'); n--)
            ;
        if (n >= LEAST && (named || looks_like_key(s, n)))
            rc = add_header_value(v, s, n, named, err);
    }
    note_beginnings(v);
    return rc;
}

void td_redact_values_release(struct td_redact_values *v)
{
    while (v->n)
        free(v->needle[--v->n].c);
    free(v->needle);
    memset(v, 0, sizeof *v);
}

/* ---- the search -------------------------------------------------------------------------------- */

/* How a needle stands at a place of a text. */
struct stand {
    size_t used;              /* bytes of the whole needle, or of the longest needle; 0: it is not there */
    size_t begun;             /* characters in common when the text ended; 0: it did not end there */
};

static struct stand stand_of_bytes(const struct td_redact_needle *needle, const char *s, size_t n)
{
    size_t k = n < needle->n ? n : needle->n;

    if (memcmp(s, needle->c, k))
        return (struct stand){0};
    return k == needle->n ? (struct stand){.used = k} : (struct stand){.begun = k};
}

/* Read a run of characters that are no ASCII, or one that is. */
static int read_run(const char *s, size_t n, size_t *at, bool more)
{
    int c = td_spelled(s, n, at, more), next = c, k;
    size_t i = *at;

    for (k = 1; next == TD_SPELLED_OTHER && k < MOST_OTHERS; k++) {
        next = td_spelled(s, n, &i, more);
        if (next == TD_SPELLED_OPEN)
            return next;
        if (next == TD_SPELLED_OTHER)
            *at = i;
    }
    return c;
}

static struct stand stand_of_text(const struct td_redact_needle *needle, const char *s, size_t n, bool more)
{
    size_t k, at = 0;

    for (k = 0; k < needle->n; k++) {
        int c = (needle->c[k] == TD_SPELLED_OTHER ? read_run : td_spelled)(s, n, &at, more);

        if (c == TD_SPELLED_OPEN || (c == TD_SPELLED_NOTHING && at == n))
            return (struct stand){.begun = k ? k : 1};
        if (c != needle->c[k])
            return (struct stand){0};
    }
    return (struct stand){.used = at};
}

static void take(struct stand *best, struct stand other)
{
    best->used = other.used > best->used ? other.used : best->used;
    best->begun = other.begun > best->begun ? other.begun : best->begun;
}

/* How the needles stand at the beginning of s. more : s may go on */
static struct stand stand_here(const struct td_redact_values *v, const char *s, size_t n, bool more)
{
    struct stand best = {0};
    size_t at = 0;
    int c = td_spelled(s, n, &at, more), i;

    for (i = v->head[(uint8_t)*s]; i >= 0; i = v->needle[i].next)
        if (v->needle[i].bytes)
            take(&best, stand_of_bytes(&v->needle[i], s, n));
    if (c == TD_SPELLED_OPEN)
        take(&best, (struct stand){.begun = 1});
    for (i = c >= 0 ? v->head[c] : -1; i >= 0; i = v->needle[i].next)
        if (!v->needle[i].bytes)
            take(&best, stand_of_text(&v->needle[i], s, n, more));
    return best;
}

static bool is_pair(const uint8_t pair[256][32], const uint8_t *p)
{
    return pair[p[0]][p[1] / 8] >> p[1] % 8 & 1;
}

/* "\u4f60" and the like are no ASCII. */
static bool is_wide(const uint8_t *p)
{
    return p[0] == '\\' && p[1] == 'u' && (p[2] != '0' || p[3] != '0');
}

/* The next place where a needle may begin: the first bytes say no nearly always. */
static size_t next_place(const struct td_redact_values *v, const char *s, size_t n, size_t at)
{
    const uint8_t *begin = (const uint8_t *)s, *p = begin + at, *end = begin + n;

    for (; end - p > 1; p++) {
        if (!is_pair(v->pair[0], p))
            continue;
        if (*p == '\\' ? p > begin && p[-1] == '\\' : end - p > 2 && !memchr("%&", *p, 2) && !is_pair(v->pair[1], p + 1))
            continue;
        if (end - p < 6 || !is_wide(p) || v->head[TD_SPELLED_OTHER] >= 0)
            break;
    }
    return (size_t)(p - begin);
}

/* cut : what has begun where s ends is a value
 * decided : where to stop before what has begun; NULL: go on */
static int64_t search(const struct td_redact_values *v, char *s, size_t n, bool cut, size_t *decided)
{
    int64_t changed = 0;
    size_t at;

    for (at = v->n && n ? next_place(v, s, n, 0) : n; at < n; at = at < n ? next_place(v, s, n, at) : n) {
        struct stand here = stand_here(v, s + at, n - at, cut || decided);

        if (here.begun && decided)
            break;
        if (cut && here.begun >= LEAST_CUT)
            here.used = n - at;
        changed += td_redact_stars(s + at, here.used);
        at += here.used ? here.used : 1;
    }
    if (decided)
        *decided = at;
    return changed;
}

int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut)
{
    return search(v, s, n, cut, NULL);
}

int64_t td_redact_values_begin(const struct td_redact_values *v, char *s, size_t n, size_t *decided)
{
    return search(v, s, n, false, decided);
}
