/* test_format_redact_values.c - values of secret headers in every spelling, cut anywhere.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format/base64.h"
#include "format/redact_members.h"
#include "format/redact_values.h"

#define KEY "Zq/9\"x+K7mm'PPw=LL\\o1Q%4z&T"
#define BEFORE "you sent "
#define AFTER ", so no\n"

typedef void spell(struct td_buf *out, unsigned char c);

static void plain(struct td_buf *out, unsigned char c) { td_buf_addc(out, (char)c); }
static void upper(struct td_buf *out, unsigned char c) { td_buf_addc(out, (char)(c >= 'a' && c <= 'z' ? c - 32 : c)); }
static void lower(struct td_buf *out, unsigned char c) { td_buf_addc(out, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c)); }
static void json(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"\\", c) ? "\\%c" : "%c", c); }
static void slashes(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"\\/", c) ? "\\%c" : "%c", c); }
static void json_twice(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"\\", c) ? "\\\\\\%c" : "%c", c); }
static void some_u(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"\\&<>'+=", c) ? "\\u%04x" : "%c", c); }
static void all_u(struct td_buf *out, unsigned char c) { td_buf_addf(out, "\\u%04X", c); }
static void u_twice(struct td_buf *out, unsigned char c) { td_buf_addf(out, c == '\\' ? "\\\\u005c\\\\u005c" : "\\\\u%04x", c); }
static void all_x(struct td_buf *out, unsigned char c) { td_buf_addf(out, "\\x%02x", c); }
static void url(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("/\"+'=\\%& ", c) ? "%%%02x" : "%c", c); }
static void url_all(struct td_buf *out, unsigned char c) { td_buf_addf(out, "%%%02X", c); }
static void url_twice(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("/\"+'=\\%& ", c) ? "%%25%02x" : "%c", c); }
static void form(struct td_buf *out, unsigned char c) { c == ' ' ? td_buf_addc(out, '+') : url(out, c); }
static void json_in_url(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"\\", c) ? "%%5C%%%02X" : strchr("/+'=%&", c) ? "%%%02X" : "%c", c); }
static void html_dec(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"'&", c) ? "&#%d;" : "%c", c); }
static void html_hex(struct td_buf *out, unsigned char c) { td_buf_addf(out, strchr("\"'&/", c) ? "&#x%X;" : "%c", c); }
static void html(struct td_buf *out, unsigned char c) { td_buf_adds(out, c == '"' ? "&quot;" : c == '&' ? "&amp;" : c == '\'' ? "&apos;" : (char[]){(char)c, 0}); }
static void html_twice(struct td_buf *out, unsigned char c) { td_buf_adds(out, c == '"' ? "&amp;quot;" : c == '&' ? "&amp;amp;" : c == '\'' ? "&amp;#39;" : (char[]){(char)c, 0}); }
static void html_in_json(struct td_buf *out, unsigned char c) { td_buf_adds(out, c == '"' ? "\\u0026#34;" : c == '&' ? "\\u0026amp;" : c == '\\' ? "\\\\" : (char[]){(char)c, 0}); }
static void hex(struct td_buf *out, unsigned char c) { td_buf_addf(out, "%02x", c); }
static void hex_upper(struct td_buf *out, unsigned char c) { td_buf_addf(out, "%02X", c); }

static spell *const SPELL[] = {plain, upper, lower, json, slashes, json_twice, some_u, all_u, u_twice, all_x, url, url_all, url_twice, form,
                               json_in_url, html_dec, html_hex, html, html_twice, html_in_json, hex, hex_upper};
#define N_SPELLINGS (sizeof SPELL / sizeof *SPELL)
static const char *const BASE64_BEFORE[] = {"", "u:", "me:", "Bearer ", "user:"};
#define N_BASE64 (sizeof BASE64_BEFORE / sizeof *BASE64_BEFORE)

static void free_values(struct td_redact_values *v)
{
    td_redact_values_release(v);
    free(v);
}

static struct td_redact_values *values(const char *header)
{
    const char *const headers[] = {header, NULL};
    struct td_redact_values *v = malloc(sizeof *v);

    assert_non_null(v);
    assert_int_equal(td_redact_values_init(v, headers, NULL), TD_OK);
    return v;
}

static void spell_key(struct td_buf *out, const char *key, spell *how)
{
    td_buf_adds(out, BEFORE);
    for (; *key; key++)
        how(out, (unsigned char)*key);
    td_buf_adds(out, AFTER);
}

/* Base64 of a text with the key in it. url : the other alphabet */
static void base64(struct td_buf *out, const char *before, const char *key, const char *after, bool url_safe)
{
    struct td_buf in = TD_BUF_INIT(1 << 16);
    size_t from;

    td_buf_addf(&in, "%s%s%s", before, key, after);
    td_buf_adds(out, BEFORE);
    from = out->len;
    td_base64_add(out, in.data, in.len);
    for (; url_safe && from < out->len; from++)
        out->data[from] = out->data[from] == '+' ? '-' : out->data[from] == '/' ? '_' : out->data[from];
    td_buf_adds(out, AFTER);
    td_buf_release(&in);
}

/* Redact a text in pieces of so many bytes, as a stream does: what is undecided waits. */
static char *redact(const struct td_redact_values *v, const char *text, size_t n, size_t piece)
{
    char *out = malloc(n + 1);
    size_t from = 0, to, decided;

    assert_non_null(out);
    memcpy(out, text, n);
    out[n] = '\0';
    for (to = piece; to < n; to += piece) {
        td_redact_values_begin(v, out + from, to - from, &decided);
        assert_true(decided <= to - from);
        from += decided;
    }
    td_redact_values_apply(v, out + from, n - from, false);
    return out;
}

/* All between BEFORE and AFTER is overwritten, but for so many characters at its ends. */
static void check_hidden(const struct td_redact_values *v, const struct td_buf *text, size_t left, size_t right)
{
    size_t n = text->len, before = strlen(BEFORE), after = strlen(AFTER), piece, i;

    for (piece = 1; piece <= n; piece += piece < 50 ? 1 : 23) {
        char *out = redact(v, text->data, n, piece);

        if (memcmp(out, BEFORE, before) || strcmp(out + n - after, AFTER))
            fail_msg("pieces of %zu: %s became %s", piece, text->data, out);
        for (i = before + left; i < n - after - right; i++)
            if (out[i] != '*')
                fail_msg("pieces of %zu: %s became %s", piece, text->data, out);
        free(out);
    }
}

static void test_spellings(void **state)
{
    static const char *const HEADER[] = {"X-Api-Key: " KEY, "Authorization: Bearer " KEY, "X-Api-Key: 12345678", "X-Api-Key: 0Abcdefg",
                                         "Authorization: Bearer sk-abcdefgh12345678-XYZ_w", "Proxy-Authorization: Basic dXNlcjpwYXNzd29yZD8+", NULL};
    struct td_buf b = TD_BUF_INIT(1 << 16);
    size_t i, k;

    (void)state;
    for (i = 0; HEADER[i]; i++) {
        struct td_redact_values *v = values(HEADER[i]);
        const char *key = strrchr(HEADER[i], ' ') + 1;

        for (k = 0; k < N_SPELLINGS; k++) {
            td_buf_clear(&b);
            spell_key(&b, key, SPELL[k]);
            td_buf_str(&b);
            check_hidden(v, &b, 0, 0);
        }
        for (k = 0; k < N_BASE64 * 4; k++) {
            const char *before = BASE64_BEFORE[k / 4];
            size_t left = strlen(before) * 8 / 6 + 1, right = k & 2 ? 8 : 3;

            td_buf_clear(&b);
            base64(&b, before, key, k & 2 ? " end" : "", k & 1);
            td_buf_str(&b);
            check_hidden(v, &b, left, right);
        }
        free_values(v);
    }
    td_buf_release(&b);
}

static void check_text(const char *header, const char *in, bool cut, const char *want)
{
    struct td_redact_values *v = values(header);
    char *out = strdup(in);

    assert_non_null(out);
    td_redact_values_apply(v, out, strlen(out), cut);
    assert_string_equal(out, want);
    free(out);
    free_values(v);
}

/* The parts of a value that are secrets of their own, and letters that are no ASCII. */
static void test_parts(void **state)
{
    (void)state;
    check_text("Authorization: Basic dXNlcjpwYXNzd29yZDE=", "no user:password1, password1 or PASSWORD1", false, "no **************, ********* or *********");
    check_text("Authorization: Basic dXNlcjpwYXNzd29yZDE=", "user and pass", false, "user and pass");
    check_text("Cookie: a=b; sid=abcdefghij0123456789; c=d", "sid abcdefghij0123456789, a=b", false, "sid ********************, a=b");
    check_text("Authorization: Digest username=\"me\", response=\"abcdefghij0123456789\"", "abcdefghij0123456789 me", false, "******************** me");
    check_text("X-Api-Key: p\xc3\xa4ssw\xc3\xb6rd-1", "a p\xe4ssw\xf6rd-1, p\\u00e4ssw\\u00f6rd-1, p%C3%A4ssw%c3%b6rd-1, p\xc3\xa4ssword", false,
               "a **********, ********************, ********************, p\xc3\xa4ssword");
    check_text("X-Api-Key: \xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c", "\xd0\xbf\xd0\xb0\xd1\x80\xd0\xbe\xd0\xbb\xd1\x8c, \xd0\xbf\xd0\xb0\xd1\x80", false,
               "************, \xd0\xbf\xd0\xb0\xd1\x80");
    check_text("X-Api-Key: " KEY, "bad Zq/9\\\"x+K7", true, "bad **********");
    check_text("X-Api-Key: " KEY, "bad \\u005a\\u0071\\u002f\\u0039\\u00", true, "bad ****************************");
    check_text("X-Api-Key: " KEY, "bad Zq/", true, "bad Zq/");
    check_text("X-Api-Key: " KEY, "bad Zq/9\\\"x+K7", false, "bad Zq/9\\\"x+K7");
    check_text("Accept: application/json", "application/json", false, "application/json");
    check_text("X-Api-Key: 1234567", "1234567", false, "1234567"); /* too short to be searched for */
}

/* A server takes several blanks and tabs for one, reads quotes and "NAME=" away, and repeats what is left. */
static void test_ways_to_give_a_key(void **state)
{
    static const char *const HEADER[] = {
        "Authorization: Bearer hunterseven", "Authorization: Bearer  hunterseven", "Authorization: Bearer\thunterseven",
        "Authorization:\tbearer \t hunterseven \t", "Authorization: hunterseven", "Authorization: Basic dXNlcjpodW50ZXJzZXZlbg==",
        "Authorization: Basic  dXNlcjpodW50ZXJzZXZlbg==", "Authorization: basic\tdXNlcjpodW50ZXJzZXZlbg ", "Authorization: Token token=hunterseven",
        "Authorization: Token token=\"hunterseven\"", "Authorization: Token  id=\"a, b\", token = \"hunterseven\"",
        "Authorization: Bearer \"hunterseven\"", "Authorization: Bearer \"hunterseven", "X-Api-Key: hunterseven", "X-Api-Key: \"hunterseven\"",
        "X-Api-Key:\t'hunterseven'", "Cookie: lang=en; session=hunterseven"};
    static spell *const HOW[] = {plain, upper, all_u, hex};
    struct td_buf b = TD_BUF_INIT(1 << 16);
    size_t i, k;

    (void)state;
    for (i = 0; i < sizeof HEADER / sizeof *HEADER; i++) {
        struct td_redact_values *v = values(HEADER[i]);

        for (k = 0; k < sizeof HOW / sizeof *HOW; k++) {
            td_buf_clear(&b);
            spell_key(&b, "hunterseven", HOW[k]);
            td_buf_str(&b);
            check_hidden(v, &b, 0, 0);
        }
        td_buf_clear(&b);
        base64(&b, "user:", "hunterseven", "", false);
        td_buf_str(&b);
        check_hidden(v, &b, 7, 3);
        free_values(v);
    }
    td_buf_release(&b);
}

/* What such headers hold besides a key are words of any message. */
static void test_words_beside_a_key(void **state)
{
    static const char DIGEST[] = "Authorization: Digest realm=\"inference\", uri=\"/v1/completions\", Algorithm=SHA-256-sess, username=\"operators\", "
                                 "opaque=\"hunterseven\", stale=true";

    (void)state;
    check_text(DIGEST, "inference of operators at /v1/completions by SHA-256-sess: true, hunterseven", false,
               "inference of operators at /v1/completions by SHA-256-sess: true, ***********");
    check_text("Cookie: consent=true; lang=\"en_US\"; session=hunterseven", "true: en_US, session hunterseven", false, "true: en_US, session ***********");
    check_text("X-Api-Key: \"short-7\"", "short-7, \"short-7\"", false, "short-7, *********");
    check_text("Authorization: Token token=\"\"", "token, Token", false, "token, Token");
    check_text("X-Api-Key: don't say passwords", "passwords", false, "passwords"); /* a quote within a word begins nothing */
}

/* What only looks like an escape, and endless ones, are read in linear time, and nothing is overwritten. */
static void test_innocent(void **state)
{
    static const char *const PATTERN[] = {"\\", "%25", "%", "&amp;", "amp;", "&", "\\u005a", "\\u00", "Zq/9", "\xff", "%5c", "\\\"", "&#", "&#x5a;",
                                          "{\"text\":\" In the beginning\",\"logprob\":-0.125}\\n"};
    struct td_redact_values *v = values("X-Api-Key: " KEY);
    size_t n = 1 << 20, i, k, decided;
    char *in = malloc(n), *out = malloc(n);

    (void)state;
    assert_true(in && out);
    for (i = 0; i < sizeof PATTERN / sizeof *PATTERN; i++) {
        for (k = 0; k < n; k++)
            in[k] = PATTERN[i][k % strlen(PATTERN[i])];
        memcpy(out, in, n);
        assert_int_equal(td_redact_values_begin(v, out, n, &decided), 0);
        assert_true(n - decided < 2000);
        assert_int_equal(td_redact_values_apply(v, out, n, false), 0);
        assert_memory_equal(in, out, n);
    }
    free(in);
    free(out);
    free_values(v);
}

/* ---- keys that are learned ------------------------------------------------------------------- */

#define MANY 3000

static void open_values(struct td_redact_values *v, size_t most, size_t most_bytes)
{
    assert_int_equal(td_redact_values_init(v, NULL, NULL), TD_OK);
    assert_int_equal(td_redact_values_open(v, most, most_bytes, NULL), TD_OK);
}

/* Keys begin alike, and some begin others. */
static int key_of(char *out, size_t size, unsigned i)
{
    return snprintf(out, size, "sk-proj-%x%.*s", i * 2654435761u, (int)(i % 7), "abcdefg");
}

static int learn(struct td_redact_values *v, unsigned i)
{
    char header[100] = "Authorization: Bearer ";

    key_of(header + strlen(header), 60, i);
    return td_redact_values_learn(v, header, strlen(header), NULL);
}

static int64_t hidden_of(struct td_redact_values *v, unsigned i, spell *how, bool cut)
{
    struct td_buf b = TD_BUF_INIT(1 << 12);
    char key[60], *c;
    int64_t n;

    td_buf_adds(&b, "said ");
    key_of(key, sizeof key, i);
    for (c = key; *c; c++)
        how(&b, (unsigned char)*c);
    td_buf_adds(&b, "!");
    td_buf_str(&b);
    n = td_redact_values_apply(v, b.data, cut ? b.len - 3 : b.len, cut);
    assert_true(!n || strstr(b.data, "said *") == b.data);
    td_buf_release(&b);
    return n;
}

/* A key of digits stays within a number, and goes where it stands alone, in whatever pieces the text comes. */
static void test_digits(void **state)
{
    static const struct { const char *in, *want; } TEXT[] = {
        {"{\"logprob\":-0.123456789,\"created\":1234567890,\"x\":0.00012345678}", NULL},
        {"\"a\": 123456789, [12345678.5, 12345678e-5,1.12345678e-05] 9912345678,\"012345678\"", NULL},
        {"12345678.0 -112345678\n-12345678.25", NULL},
        {"{\"message\":\"no key 1.12345678, 0.12345678 or 12345678.2\"}", NULL}, /* docs/security.md says that it stays */
        {"no key 12345678. \"12345678\" ('12345678') k=12345678", "no key ********. \"********\" ('********') k=********"},
        {"{\"n\":12345678,\"m\":-12345678}", "{\"n\":********,\"m\":-********}"},
        {"key%2012345678%20 \\u002012345678 &#3212345678; sk-12345678 id-9912345678", "key%20********%20 \\u0020******** &#32********; sk-******** id-99********"},
        {"\\u0031\\u0032345678 %312345678 x12345678y", "****************** ********** x********y"},
        {"0000000000000000000000000000000000012345678 ..12345678", "00000000000000000000000000000000000******** ..********"},
        {"MTIzNDU2Nzg= 3132333435363738", "**********g= ****************"},
    };
    size_t i, piece, learned;

    (void)state;
    for (learned = 0; learned < 2; learned++) {
        struct td_redact_values *v = values(learned ? "Accept: a" : "Authorization: Bearer 12345678");

        if (learned) {
            assert_int_equal(td_redact_values_open(v, 1000, SIZE_MAX, NULL), TD_OK);
            assert_int_equal(td_redact_values_learn(v, "X-Api-Key: 12345678", 19, NULL), TD_OK);
        }
        for (i = 0; i < sizeof TEXT / sizeof *TEXT; i++)
            for (piece = 1; piece <= strlen(TEXT[i].in); piece++) {
                char *out = redact(v, TEXT[i].in, strlen(TEXT[i].in), piece);

                if (strcmp(out, TEXT[i].want ? TEXT[i].want : TEXT[i].in))
                    fail_msg("pieces of %zu: %s became %s", piece, TEXT[i].in, out);
                free(out);
            }
        free_values(v);
    }
    check_text("X-Api-Key: 12345678", "\"logprob\":-0.12345", true, "\"logprob\":-0.12345");
    check_text("X-Api-Key: 12345678", "\"logprob\":-0.12345678", true, "\"logprob\":-0.12345678");
    check_text("X-Api-Key: 12345678", "bad key 12345", true, "bad key *****");
    check_text("X-Api-Key: 12345678", "bad key 12345678", true, "bad key ********");
    check_text("X-Api-Key: 12345678901234567890", "0.12345678901234567890", false, "0.********************"); /* too long to be met by chance */
}

static void test_many(void **state)
{
    struct td_redact_values v;
    char key[60];
    unsigned i;

    (void)state;
    open_values(&v, 1 << 18, SIZE_MAX);
    assert_false(td_redact_values_any(&v));
    for (i = 0; i < MANY; i++) /* in no order */
        assert_int_equal(learn(&v, i * 7919 % MANY), TD_OK);
    assert_int_equal(learn(&v, 5), TD_OK); /* once more */
    assert_true(td_redact_values_any(&v));
    for (i = 0; i < MANY; i++) {
        const int n = key_of(key, sizeof key, i);

        assert_int_equal(hidden_of(&v, i, plain, false), n);
        assert_int_equal(hidden_of(&v, i, all_u, false), 6 * n);
        assert_int_equal(hidden_of(&v, i, hex, false), 2 * n);
        assert_int_equal(hidden_of(&v, i, plain, true), n - 2);
        assert_int_equal(hidden_of(&v, MANY + 7 + i * 7, plain, false), 0); /* not learned */
    }
    td_redact_values_release(&v);
}

/* There is no room: that is said, and what was learned before is still found. */
static void test_no_room(void **state)
{
    struct td_redact_values v;
    unsigned i, most;

    (void)state;
    for (most = 0; most < 2; most++) {
        open_values(&v, most ? SIZE_MAX : 100, most ? 4000 : SIZE_MAX);
        for (i = 0; learn(&v, i) == TD_OK; i++)
            ;
        assert_in_range(i, 10, 40);
        assert_int_equal(learn(&v, i), TD_ELIMIT);
        while (i--)
            assert_true(hidden_of(&v, i, plain, false) > 0);
        td_redact_values_release(&v);
    }
}

/* A text that begins like a long key, and goes on in another way. */
static void test_begins_like_a_long_key(void **state)
{
    static const char NAME[] = "X-Api-Key: ";
    char header[1000], text[1000];
    struct td_redact_values v;
    size_t n;

    (void)state;
    memset(header, 'a', sizeof header);
    memcpy(header, NAME, strlen(NAME));
    header[sizeof header - 1] = 'b';
    open_values(&v, 1000, SIZE_MAX);
    assert_int_equal(td_redact_values_learn(&v, header, sizeof header, NULL), TD_OK);
    for (n = 127; n < 130; n++) {
        memset(text, 'a', n);
        text[n] = 'c';
        assert_int_equal(td_redact_values_apply(&v, text, n + 1, false), n < 128 ? 0 : n);
    }
    td_redact_values_release(&v);
}

/* A key that somebody made up is a word of any text, but for the scheme before it. */
static void test_words_are_not_learned(void **state)
{
    static const char *const HEADER[] = {"X-Api-Key: whatever", "Authorization: Bearer not-needed", "Cookie: c=application/json"};
    char text[] = "whatever is not-needed, application/json, no-key-1234";
    struct td_redact_values v;
    size_t i;

    (void)state;
    open_values(&v, 1000, SIZE_MAX);
    for (i = 0; i < sizeof HEADER / sizeof *HEADER; i++)
        assert_int_equal(td_redact_values_learn(&v, HEADER[i], strlen(HEADER[i]), NULL), TD_OK);
    assert_int_equal(td_redact_values_apply(&v, text, sizeof text - 1, false), 0);
    assert_int_equal(td_redact_values_learn(&v, "X-Api-Key: no-key-1234", 22, NULL), TD_OK);
    assert_int_equal(td_redact_values_apply(&v, text, sizeof text - 1, false), 11);
    td_redact_values_release(&v);
}

/* Of "u:K" the end is a key; of "s:K.sig" K is, where it looks like one. Of a time or a URL no part is. */
static void test_between_colons(void **state)
{
    static const struct { const char *header, *text, *after; } CASES[] = {
        {"X-Credentials: u:pass-1234", "it is pass-1234", "it is *********"},
        {"Authorization: SharedKey me:pass-1234", "it is pass-1234", "it is *********"},
        {"Cookie: a=b; sid=s:0123456789abcdefghij.c2ln; c=d", "0123456789abcdefghij", "********************"},
        {"Cookie: sid=s:0123456789abcdefghij.c2ln", "0123456789abcdefghij.c2ln", "*************************"},
        {"Cookie: sid=a:b:0123456789abcdefghij", "0123456789abcdefghij", "********************"},
        {"Cookie: sid=s:short123.c2ln", "short123", "short123"},
        {"Cookie: at=2026-11-26T22:05:30Z", "2026-11-26T22 and 05:30Z", "2026-11-26T22 and 05:30Z"},
        {"Cookie: next=https://host-1/path", "//host-1/path", "//host-1/path"},
        {"X-Credentials: u:not-needed", "not-needed", "not-needed"},
    };
    char text[100];
    struct td_redact_values v;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        open_values(&v, 1000, SIZE_MAX);
        assert_int_equal(td_redact_values_learn(&v, CASES[i].header, strlen(CASES[i].header), NULL), TD_OK);
        snprintf(text, sizeof text, "%s", CASES[i].text);
        td_redact_values_apply(&v, text, strlen(text), false);
        assert_string_equal(text, CASES[i].after);
        td_redact_values_release(&v);
    }
}

/* What stands between the values of JSON is no key, however it is escaped: it would spoil answers of others. */
static void test_json_is_not_learned(void **state)
{
    static const char *const HEADER[] = {"X-Api-Key: \"index\": 0, \"text\": ", "X-Api-Key: %22index%22:", "X-Api-Key: null,null,null",
                                         "X-Api-Key: : -0.25,1", "X-Api-Key: :+-0.25"};
    char text[] = "{\"index\": 0, \"text\": \"a\", \"b\": [null,null,null], \"c\": -0.25,1}", said[] = "key-1234567";
    struct td_redact_values v;
    size_t i;

    (void)state;
    open_values(&v, 1000, SIZE_MAX);
    for (i = 0; i < sizeof HEADER / sizeof *HEADER; i++)
        assert_int_equal(td_redact_values_learn(&v, HEADER[i], strlen(HEADER[i]), NULL), TD_OK);
    assert_int_equal(td_redact_values_apply(&v, text, sizeof text - 1, false), 0);
    assert_int_equal(td_redact_values_learn(&v, "X-Api-Key: {\"a\": \"key-1234567\"}", 31, NULL), TD_OK); /* in quotes */
    assert_int_equal(td_redact_values_apply(&v, said, sizeof said - 1, false), 11);
    td_redact_values_release(&v);
}

/* Of a long key no more than a part is held, and searched again with each packet. The whole of it is found. */
static void test_long_keys_are_held_in_parts(void **state)
{
    static const char PREFIX[] = "X-Api-Key: ";
    enum { N = 50000 };
    struct td_redact_values v;
    size_t decided;
    char *header = malloc((sizeof PREFIX - 1) + N), *key = header + (sizeof PREFIX - 1), *text = malloc(N);

    (void)state;
    assert_non_null(header);
    assert_non_null(text);
    memcpy(header, PREFIX, (sizeof PREFIX - 1));
    memset(key, 'a', N);
    key[N - 1] = 'b';
    open_values(&v, 1000, SIZE_MAX);
    assert_int_equal(td_redact_values_learn(&v, header, (sizeof PREFIX - 1) + N, NULL), TD_OK);
    memcpy(text, key, N);
    assert_int_equal(td_redact_values_apply(&v, text, N, false), N);
    memset(text, 'a', N);
    td_redact_values_begin(&v, text, N - 7, &decided);
    assert_in_range(N - 7 - decided, 1, 2048);
    td_redact_values_release(&v);
    free(header);
    free(text);
}

/* Who has no password is known by his name: "curl -u KEY:". */
static void test_name_without_password(void **state)
{
    static const char SENT[] = "Authorization: Basic a2V5LTEyMzQ1Njc6"; /* key-1234567: */
    char text[] = "no key-1234567";
    struct td_redact_values v;

    (void)state;
    open_values(&v, 1000, SIZE_MAX);
    assert_int_equal(td_redact_values_learn(&v, SENT, sizeof SENT - 1, NULL), TD_OK);
    assert_int_equal(td_redact_values_apply(&v, text, sizeof text - 1, false), 11);
    td_redact_values_release(&v);
}

/* Lines of our own stay such, whatever the key is. */
static void test_members(void **state)
{
    static const struct { const char *key, *line, *want; int own; } CASE[] = {
        {"prompt_id", "{\"prompt_id\":\"a\",\"request\":{\"prompt_id\":\"my prompt_id\"}}",
         "{\"prompt_id\":\"a\",\"request\":{\"*********\":\"my *********\"}}", 1},
        {"captured-77", "{\"prompt_id\":\"captured-77\",\"text\":\"captured-77\"}", "{\"prompt_id\":\"captured-77\",\"text\":\"***********\"}", 1},
        {"completions7", "{\"open\":{\"path\":\"/v1/completions7?a=completions7\",\"phase\":\"completions7\"}}",
         "{\"open\":{\"path\":\"/v1/completions7?a=************\",\"phase\":\"completions7\"}}", 2},
        {"\",\"text\":\"", "{\"id\":\"b\",\"text\":\"say \\\",\\\"text\\\":\\\" it\"}", "{\"id\":\"b\",\"text\":\"say ************** it\"}", 1},
        {"0041bcdefgh", "{\"text\":\"x\\u0041bcdefgh y\"}", "{\"text\":\"****************\"}", 1},
        {"12345678", "{\"t\":12345678,\"request\":{\"seed\":-123456789,\"n\":[12345678]}}",
         "{\"t\":12345678,\"request\":{\"seed\":-123456789,\"n\":[11111111]}}", 1},
        {"0041bcdefgh", "no JSON \" 0041bcdefgh", "no JSON \" ***********", 1}};
    char header[100], line[200];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof CASE / sizeof *CASE; i++) {
        struct td_redact_values *v;

        snprintf(header, sizeof header, "X-Api-Key: %s", CASE[i].key);
        snprintf(line, sizeof line, "%s", CASE[i].line);
        v = values(header);
        assert_true(td_redact_members(v, line, strlen(line), CASE[i].own) > 0);
        assert_string_equal(line, CASE[i].want);
        free_values(v);
    }
}

static void *learn_all(void *arg)
{
    unsigned i;

    for (i = 0; i < MANY; i++)
        if (learn(arg, i))
            return arg;
    return NULL;
}

static void test_search_while_learning(void **state)
{
    struct td_redact_values v;
    pthread_t thread;
    void *failed;
    unsigned i;

    (void)state;
    open_values(&v, 1 << 18, SIZE_MAX);
    assert_int_equal(learn(&v, MANY), TD_OK);
    assert_int_equal(pthread_create(&thread, NULL, learn_all, &v), 0);
    for (i = 0; i < MANY; i++)
        assert_true(hidden_of(&v, MANY, plain, false) > 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(hidden_of(&v, 0, plain, false) > 0);
    td_redact_values_release(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spellings), cmocka_unit_test(test_parts), cmocka_unit_test(test_ways_to_give_a_key),
                                       cmocka_unit_test(test_words_beside_a_key), cmocka_unit_test(test_innocent), cmocka_unit_test(test_digits), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_no_room), cmocka_unit_test(test_begins_like_a_long_key),
                                       cmocka_unit_test(test_words_are_not_learned), cmocka_unit_test(test_between_colons), cmocka_unit_test(test_json_is_not_learned),
                                       cmocka_unit_test(test_long_keys_are_held_in_parts), cmocka_unit_test(test_name_without_password),
                                       cmocka_unit_test(test_members),
                                       cmocka_unit_test(test_search_while_learning)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
