/* redact_values.c - find the values of secret headers wherever they come back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/base64.h"
#include "format/credentials.h"
#include "format/secret_names.h"
#include "format/spelling.h"

#define LEAST TD_REDACT_NEEDLE_LEAST
#define LEAST_OF_A_KEY 20
#define MOST_NEEDLES 4096 /* of a command line */
#define MOST_VALUE (1u << 20)
#define MOST_PART 2048   /* bytes of a value that is learned, which are looked for at once */

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

static bool stands_between_values(uint8_t c)
{
    return c < 0x20 || memchr("\"{}[],", c, 6);
}

/* Does it hold what stands between the values of JSON, and in no key? Elsewhere it would spoil answers of others.
 *   read : as td_spelled() reads s, where '+' is a blank, too */
static bool is_of_json(const char *s, size_t n, const uint8_t *read, size_t len)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (s[i] == ' ' || stands_between_values((uint8_t)s[i]))
            return true;
    for (i = 0; i < len; i++)
        if (stands_between_values(read[i]))
            return true;
    return len && (read[0] == ':' || read[len - 1] == ':');
}

/* Add a text as td_spelled() reads it, as such a needle; where that may lose it, also as it is. */
static int add_part(struct td_redact_values *v, const char *s, size_t n, enum td_redact_needle_kind kind, struct td_error *err)
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
    if (v->lock && is_of_json(s, n, read, len)) {
        free(read);
        free(as_is);
        return TD_OK;
    }
    if (at < n || len < n)
        rc = td_redact_needles_add(&v->needles, as_is, n, TD_NEEDLE_BYTES, err);
    else
        free(as_is);
    if (!rc && len >= LEAST)
        return td_redact_needles_add(&v->needles, read, len, kind, err);
    free(read);
    return rc;
}

/* Add a text. A long one that is learned is looked for in parts: while the beginning of one is held, each packet
 * has it searched again. */
static int add_as(struct td_redact_values *v, const char *s, size_t n, enum td_redact_needle_kind kind, struct td_error *err)
{
    const size_t parts = v->lock ? (n + MOST_PART - 1) / MOST_PART : 1;
    size_t i;
    int rc = TD_OK;

    for (i = 0; !rc && i < parts; i++)
        rc = add_part(v, s + n * i / parts, n * (i + 1) / parts - n * i / parts, kind, err);
    return rc;
}

/* Is it digits alone, so few that they may stand within a number of any message? */
static bool is_digits(const char *s, size_t n)
{
    size_t i;

    for (i = 0; i < n && isdigit((unsigned char)s[i]); i++)
        ;
    return i == n && n < LEAST_OF_A_KEY;
}

static int add_text(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    return add_as(v, s, n, is_digits(s, n) ? TD_NEEDLE_ALONE : TD_NEEDLE_SPELLED, err);
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
    rc = b.failed ? td_fail(err, TD_ENOMEM, "redaction: out of memory") : add_as(v, b.data, b.len, TD_NEEDLE_SPELLED, err);
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
    rc = in.failed || out.failed ? td_fail(err, TD_ENOMEM, "redaction: out of memory") : add_as(v, out.data + from, to - from, TD_NEEDLE_SPELLED, err);
    for (i = from; !rc && i < to; i++)
        out.data[i] = out.data[i] == '+' ? '-' : out.data[i] == '/' ? '_' : out.data[i]; /* URL-safe */
    if (!rc)
        rc = add_as(v, out.data + from, to - from, TD_NEEDLE_SPELLED, err);
    td_buf_release(&in);
    td_buf_release(&out);
    return rc;
}

/* Is it a word, as the keys that clients of servers without one make up ("whatever", "not-needed")? */
static bool is_word(const char *s, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!isalpha((unsigned char)s[i]) && !memchr("-_./", s[i], 4))
            return false;
    return n < LEAST_OF_A_KEY;
}

/* Add a value in all its forms. One that is learned is somebody else's: a word stands in texts of others. */
static int add_value(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    int rc = TD_OK;
    size_t before;

    if (v->lock && is_word(s, n))
        return TD_OK;
    rc = add_text(v, s, n, err);
    for (before = 0; !rc && before < 3; before++)
        rc = add_base64(v, s, n, before, err);
    return rc ? rc : add_hex(v, s, n, err);
}

/* What "Basic" credentials of n bytes say: "user:password", and the password, or the user where it is empty. */
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
        if (!rc && password && password + 1 == b.data + b.len && b.len > LEAST) /* as of curl -u KEY: */
            rc = add_value(v, b.data, b.len - 1, err);
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
        for (len = 0; len < n - at && !memchr(" \t;,=\"", s[at + len], 6); len++)
            ;
        if (len < n && looks_like_key(s + at, len))
            rc = add_value(v, s + at, len, err);
    }
    return rc;
}

/* Add what stands between colons: of "u:K" the end; of "s:K.sig" (a cookie that is signed) also what looks like a key
 * between its dots. Where there are more colons, as in a time, parts that look like a key. */
static int add_between_colons(struct td_redact_values *v, const char *s, size_t n, struct td_error *err)
{
    const char *colon = memchr(s, ':', n), *end = s + n, *part, *dot;
    const bool one = colon && !memchr(colon + 1, ':', (size_t)(end - colon - 1));
    size_t len;
    int rc = TD_OK;

    if (one && (len = (size_t)(end - colon - 1)) >= LEAST && memcmp(colon + 1, "//", 2) && !is_word(colon + 1, len))
        rc = add_value(v, colon + 1, len, err);
    for (part = s; !rc && colon && part < end; part = dot + 1) {
        for (dot = part; dot < end && *dot != ':' && *dot != '.'; dot++)
            ;
        if (looks_like_key(part, (size_t)(dot - part)))
            rc = add_value(v, part, (size_t)(dot - part), err);
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
    if (!rc)
        rc = add_between_colons(v, key < n ? s + key : s, key < n ? n - key : n, err);
    while (!rc && td_credentials_next(s, n, &at, &one))
        if (one.n >= LEAST && !(rc = add_value(v, one.s, one.n, err)))
            rc = add_between_colons(v, one.s, one.n, err);
    return rc;
}

/* Add what a header's value holds, of n bytes.
 * named : its name is a secret's */
static int add_header_value(struct td_redact_values *v, const char *s, size_t n, bool named, struct td_error *err)
{
    const int rc = named ? add_secret(v, s, n, err) : add_value(v, s, n, err);

    return rc ? rc : add_parts(v, s, n, err);
}

/* Add a header, "NAME: VALUE", if its value is worth a search. */
static int add_header(struct td_redact_values *v, const char *header, size_t n, struct td_error *err)
{
    const char *colon = memchr(header, ':', n), *s = colon ? colon + 1 : header + n, *end = header + n;
    bool named = colon && td_secret_header(header, (size_t)(colon - header));

    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    while (end > s && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    n = (size_t)(end - s);
    return n >= LEAST && (named || looks_like_key(s, n)) ? add_header_value(v, s, n, named, err) : TD_OK;
}

static void note_any(struct td_redact_values *v)
{
    atomic_store_explicit(&v->any, v->needles.n > 0, memory_order_release);
}

int td_redact_values_init(struct td_redact_values *v, const char *const *headers, struct td_error *err)
{
    int rc = TD_OK;

    memset(v, 0, sizeof *v);
    v->needles.most = MOST_NEEDLES;
    v->needles.most_bytes = SIZE_MAX;
    for (; !rc && headers && *headers; headers++)
        rc = add_header(v, *headers, strlen(*headers), err);
    note_any(v);
    return rc;
}

int td_redact_values_open(struct td_redact_values *v, size_t most, size_t most_bytes, struct td_error *err)
{
    v->lock = malloc(sizeof *v->lock);
    if (!v->lock || pthread_rwlock_init(v->lock, NULL)) {
        free(v->lock);
        v->lock = NULL;
        return td_fail(err, TD_ENOMEM, "redaction: out of memory");
    }
    v->needles.most = most;
    v->needles.most_bytes = most_bytes;
    return TD_OK;
}

int td_redact_values_learn(struct td_redact_values *v, const char *header, size_t n, struct td_error *err)
{
    int rc;

    pthread_rwlock_wrlock(v->lock);
    rc = add_header(v, header, n, err);
    note_any(v);
    pthread_rwlock_unlock(v->lock);
    return rc;
}

void td_redact_values_release(struct td_redact_values *v)
{
    td_redact_needles_release(&v->needles);
    note_any(v);
    if (v->lock)
        pthread_rwlock_destroy(v->lock);
    free(v->lock);
    v->lock = NULL;
}

/* ---- the search -------------------------------------------------------------------------------- */

/* A record is queued behind the learning of its keys, so who takes it from the queue sees that there are any. */
bool td_redact_values_any(const struct td_redact_values *v)
{
    return atomic_load_explicit(&v->any, memory_order_acquire);
}

static int64_t hide(const struct td_redact_values *v, char *s, size_t n, bool cut, size_t *decided)
{
    int64_t changed;

    if (!td_redact_values_any(v)) {
        if (decided)
            *decided = n;
        return 0;
    }
    if (v->lock)
        pthread_rwlock_rdlock(v->lock);
    changed = td_redact_needles_hide(&v->needles, s, n, cut, decided);
    if (v->lock)
        pthread_rwlock_unlock(v->lock);
    return changed;
}

int64_t td_redact_values_apply(const struct td_redact_values *v, char *s, size_t n, bool cut)
{
    return hide(v, s, n, cut, NULL);
}

int64_t td_redact_values_begin(const struct td_redact_values *v, char *s, size_t n, size_t *decided)
{
    return hide(v, s, n, false, decided);
}
