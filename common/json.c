/* json.c - read JSON with cJSON: rewrite what it would damage, then parse; and write JSON.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/hidden.h"
#include "common/memory.h"
#include "common/out_of_memory.h"

#define CODE_NUL "\xC0\x80"
#define CODE_INT "\xC0\x81"
#define CODE_NAN "\xC0\x82"
#define REPLACEMENT "\xEF\xBF\xBD"

/* ---- UTF-8 -------------------------------------------------------------------------------------------------------- */

int td_utf8_seq(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    int len, i;
    unsigned low = 0x80, high = 0xBF;

    if (!n)
        return 0;
    if (u[0] < 0x80)
        return 1;
    if (u[0] >= 0xC2 && u[0] <= 0xDF)
        len = 2;
    else if (u[0] >= 0xE0 && u[0] <= 0xEF)
        len = 3;
    else if (u[0] >= 0xF0 && u[0] <= 0xF4)
        len = 4;
    else
        return 0;
    if (u[0] == 0xE0)
        low = 0xA0; /* overlong */
    else if (u[0] == 0xED)
        high = 0x9F; /* surrogates */
    else if (u[0] == 0xF0)
        low = 0x90;
    else if (u[0] == 0xF4)
        high = 0x8F; /* beyond U+10FFFF */
    for (i = 1; i < len; i++) {
        if ((size_t)i >= n)
            return -1;
        if (u[i] < low || u[i] > high)
            return 0;
        low = 0x80;
        high = 0xBF;
    }
    return len;
}

size_t td_utf8_clean(const char *s, size_t n, struct td_buf *out)
{
    size_t bad = 0, i = 0;

    while (i < n) {
        int len = td_utf8_seq(s + i, n - i);

        if (len > 0) {
            td_buf_add(out, s + i, (size_t)len);
            i += (size_t)len;
        } else {
            td_buf_adds(out, REPLACEMENT);
            bad++;
            i++;
        }
    }
    return bad;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Do eight bytes stand for themselves in a JSON string? No, where one is below ' ' or above '~', a quote, or a backslash. */
static bool are_plain(const char *s)
{
    uint64_t v, quote, backslash;

    memcpy(&v, s, sizeof v);
    quote = v ^ EACH('"');
    backslash = v ^ EACH('\\');
    /* the upper bit of a byte: it is set; or the byte is '\x7f', below ' ', zero in one of the two. What a byte that is not
     * plain carries over to the next one changes nothing any more. */
    return !((v | (v + EACH(1)) | (v - EACH(' ')) | (quote - EACH(1)) | (backslash - EACH(1))) & EACH(0x80));
}

/* How many bytes at the start of s[n] stand for themselves in a JSON string. */
static size_t plain_run(const char *s, size_t n)
{
    size_t i = 0;

    while (n - i >= 8 && are_plain(s + i))
        i += 8;
    for (; i < n && s[i] >= 0x20 && s[i] < 0x7F && s[i] != '"' && s[i] != '\\'; i++)
        ;
    return i;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* values: what becomes a node of the tree; strings: keys and texts. What lies before `taken` is in out. */
struct scan { const char *s; size_t n, at, taken; struct td_buf *out; uint64_t values, strings; };

/* Take the text up to here as it is. */
static void take(struct scan *c)
{
    td_buf_add(c->out, c->s + c->taken, c->at - c->taken);
    c->taken = c->at;
}

/* In place of the next n bytes of the text. */
static void replace(struct scan *c, size_t n, const char *by)
{
    take(c);
    td_buf_adds(c->out, by);
    c->taken = c->at += n;
}

static void scan_string(struct scan *c)
{
    c->strings++;
    c->values++;
    c->at++;
    while (c->at < c->n && c->s[c->at] != '"') {
        const char *p = c->s + c->at;
        size_t left = c->n - c->at, run = plain_run(p, left);
        int len;

        if (run)
            c->at += run;
        else if (*p == '\\' && left >= 6 && !memcmp(p, "\\u0000", 6))
            replace(c, 6, CODE_NUL);
        else if (*p == '\\' && left >= 2)
            c->at += 2;
        else if (*p == '\0') /* a raw NUL would end cJSON's input */
            replace(c, 1, CODE_NUL);
        else if ((len = td_utf8_seq(p, left)) > 0)
            c->at += (size_t)len;
        else
            replace(c, 1, REPLACEMENT);
    }
    c->at += c->at < c->n;
}

static bool is_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || (c | 0x20) == 'e';
}

static void scan_number(struct scan *c)
{
    const size_t from = c->at;
    bool integer = true;
    char digits[32], coded[40], *end;
    size_t len;
    long long v;

    c->values++;
    while (c->at < c->n && is_of_number(c->s[c->at])) {
        integer &= c->s[c->at] != '.' && (c->s[c->at] | 0x20) != 'e';
        c->at++;
    }
    len = c->at - from;
    if (!integer || len < 16 || len >= sizeof digits)
        return;
    memcpy(digits, c->s + from, len);
    digits[len] = '\0';
    errno = 0;
    v = strtoll(digits, &end, 10);
    if (*end || (!errno && v <= (1LL << 53) && v >= -(1LL << 53)))
        return;
    snprintf(coded, sizeof coded, "\"" CODE_INT "%s\"", digits);
    c->at = from;
    replace(c, len, coded);
}

/* The word for a value that JSON does not have, here in the text; NULL: none. */
static const char *word_at(const char *p, size_t left)
{
    const char *word = *p == 'N' ? "NaN" : *p == 'I' ? "Infinity" : *p == '-' ? "-Infinity" : NULL;

    return word && left >= strlen(word) && !memcmp(p, word, strlen(word)) ? word : NULL;
}

static void replace_word(struct scan *c, const char *word)
{
    char coded[24];

    snprintf(coded, sizeof coded, "\"" CODE_NAN "%s\"", word);
    replace(c, strlen(word), coded);
    c->values++;
    c->strings++;
}

/* Copy the text with safe strings, and large integers and NaN as coded strings. */
static int rewrite_text(struct scan *c, struct td_error *err)
{
    int depth = 0;

    td_buf_reserve(c->out, c->n); /* mostly all */
    while (c->at < c->n) {
        const char *p = c->s + c->at, *word = word_at(p, c->n - c->at);

        if (word) {
            replace_word(c, word);
        } else if (*p == '"') {
            scan_string(c);
        } else if (*p == '-' || (*p >= '0' && *p <= '9')) {
            scan_number(c);
        } else if (*p == '\0') {
            return td_fail(err, TD_ECORRUPT, "JSON: NUL byte outside a string at offset %zu", c->at);
        } else {
            depth += *p == '{' || *p == '[';
            c->values += *p == '{' || *p == '[' || *p == 't' || *p == 'f' || *p == 'n';
            depth -= *p == '}' || *p == ']';
            if (depth > TD_JSON_MAX_DEPTH)
                return td_fail(err, TD_ELIMIT, "JSON: nested deeper than %d at offset %zu", TD_JSON_MAX_DEPTH, c->at);
            c->at++;
        }
    }
    take(c);
    return c->out->failed ? td_fail(err, TD_ENOMEM, "JSON: text of %zu bytes does not fit in memory", c->n) : TD_OK;
}

/* What a tree takes at most, and what is made of it: a record's arrays, copies of its parts. */
static uint64_t tree_cost(const struct scan *c)
{
    return 2 * (c->values * (sizeof(cJSON) + 16) + c->strings * 32 + c->out->len);
}

int td_json_room(const char *text, size_t n, struct td_error *err)
{
    uint64_t values = 0;
    size_t i;

    for (i = 0; i < n; i++) /* each value but the first stands behind one of these */
        values += text[i] == ',' || text[i] == '[' || text[i] == '{' || text[i] == ':';
    return td_memory_room_record((values + 1) * (sizeof(cJSON) + 16 + 32) + n, "JSON", err);
}

/* Show what stands at the offset. A key may begin before it, and end behind what is shown. */
static void fail_at(const struct td_buf *text, size_t at, struct td_error *err)
{
    const size_t from = at > TD_HIDDEN_MOST ? at - TD_HIDDEN_MOST : 0, behind = text->len > at ? text->len - at : 0;
    char *shown = td_hidden_copy(td_buf_str(text) + from, at - from + (behind < TD_HIDDEN_MOST ? behind : TD_HIDDEN_MOST));

    td_fail(err, TD_ECORRUPT, "not JSON at offset %zu: \"%.40s\"", at, shown ? shown + (at - from) : "");
    free(shown);
}

cJSON *td_json_parse(const char *text, size_t n, struct td_error *err)
{
    struct td_buf safe = TD_BUF_INIT(TD_JSON_MAX_BYTES);
    struct scan c = {.s = text, .n = n, .out = &safe};
    const unsigned failed_before = td_out_of_memory_count();
    const char *end = NULL;
    cJSON *tree = NULL;

    if (n > TD_JSON_MAX_BYTES / 4) {
        td_fail(err, TD_ELIMIT, "JSON: %zu bytes are more than the maximum of %zu", n, TD_JSON_MAX_BYTES / 4);
        return NULL;
    }
    if (td_memory_room_record(3 * (uint64_t)n, "JSON", err) || rewrite_text(&c, err) ||
        td_memory_room_record(tree_cost(&c), "JSON", err))
        goto out;
    tree = cJSON_ParseWithLengthOpts(td_buf_str(&safe), safe.len + 1, &end, false);
    if (tree)
        while (*end == ' ' || *end == '\n' || *end == '\r' || *end == '\t')
            end++;
    if (!tree && td_out_of_memory_count() != failed_before) {
        td_fail(err, TD_ENOMEM, "JSON: out of memory for %zu bytes", n);
    } else if (!tree || *end) {
        fail_at(&safe, end ? (size_t)(end - td_buf_str(&safe)) : 0, err);
        cJSON_Delete(tree);
        tree = NULL;
    }
out:
    td_buf_release(&safe);
    return tree;
}

static cJSON *load(int (*read)(const char *, size_t, struct td_buf *, struct td_error *), const char *path,
                   size_t max, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(max);
    cJSON *tree = NULL;

    if (!read(path, max, &b, err)) {
        tree = td_json_parse(td_buf_str(&b), b.len, err);
        if (!tree)
            td_fail_at(err, "%s", path);
    }
    td_buf_release(&b);
    return tree;
}

cJSON *td_json_load(const char *path, size_t max, struct td_error *err)
{
    return load(td_fs_read, path, max, err);
}

cJSON *td_json_load_regular(const char *path, size_t max, struct td_error *err)
{
    return load(td_fs_read_regular, path, max, err);
}

cJSON *td_json_load_member(const char *path, size_t max, struct td_error *err)
{
    return load(td_fs_read_member, path, max, err);
}

const cJSON *td_json_get(const cJSON *obj, const char *key)
{
    const cJSON *v = cJSON_IsObject(obj) ? obj->child : NULL;

    while (v && v->string && (v->string[0] != key[0] || strcmp(v->string, key) != 0)) /* cJSON's own calls strcmp() for each */
        v = v->next;
    return v && v->string ? v : NULL;
}

const char *td_json_get_str(const cJSON *obj, const char *key, const char *missing)
{
    const cJSON *v = td_json_get(obj, key);

    return cJSON_IsString(v) ? v->valuestring : missing;
}

double td_json_num(const cJSON *v, double missing)
{
    if (cJSON_IsNumber(v))
        return v->valuedouble;
    if (!cJSON_IsString(v))
        return missing;
    if (!strncmp(v->valuestring, CODE_INT, 2))
        return strtod(v->valuestring + 2, NULL);
    if (!strcmp(v->valuestring, CODE_NAN "NaN") || !strcmp(v->valuestring, "NaN"))
        return NAN;
    if (!strcmp(v->valuestring, CODE_NAN "Infinity") || !strcmp(v->valuestring, "Infinity"))
        return INFINITY;
    if (!strcmp(v->valuestring, CODE_NAN "-Infinity") || !strcmp(v->valuestring, "-Infinity"))
        return -INFINITY;
    return missing;
}

cJSON *td_json_new_num(double v)
{
    if (isfinite(v))
        return cJSON_CreateNumber(v);
    return cJSON_CreateString(isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
}

int64_t td_json_i64(const cJSON *v, int64_t missing)
{
    const char *s;
    char *end;
    long long x;

    if (cJSON_IsNumber(v)) {
        double d = v->valuedouble;

        return d >= -9.2e18 && d <= 9.2e18 ? (int64_t)d : missing;
    }
    if (!cJSON_IsString(v))
        return missing;
    s = v->valuestring + (strncmp(v->valuestring, CODE_INT, 2) ? 0 : 2);
    errno = 0;
    x = strtoll(s, &end, 10);
    return *s && !*end && !errno ? x : missing;
}

double td_json_get_num(const cJSON *obj, const char *key, double missing)
{
    return td_json_num(td_json_get(obj, key), missing);
}

int64_t td_json_get_i64(const cJSON *obj, const char *key, int64_t missing)
{
    return td_json_i64(td_json_get(obj, key), missing);
}

bool td_json_get_bool(const cJSON *obj, const char *key, bool missing)
{
    const cJSON *v = td_json_get(obj, key);

    return cJSON_IsBool(v) ? cJSON_IsTrue(v) : missing;
}

int td_json_bytes(const cJSON *v, struct td_buf *out)
{
    const char *s;

    if (!cJSON_IsString(v))
        return TD_ENOTFOUND;
    for (s = v->valuestring; *s; s++) {
        if (!strncmp(s, CODE_NUL, 2)) {
            td_buf_addc(out, '\0');
            s++;
        } else {
            td_buf_addc(out, *s);
        }
    }
    return out->failed ? TD_ELIMIT : TD_OK;
}

int td_json_get_bytes(const cJSON *obj, const char *key, struct td_buf *out)
{
    return td_json_bytes(td_json_get(obj, key), out);
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

void td_jw_init(struct td_jw *w, struct td_buf *out, bool pretty)
{
    memset(w, 0, sizeof *w);
    w->out = out;
    w->pretty = pretty;
    w->first[0] = 1;
}

static void put_newline(struct td_jw *w)
{
    int i;

    if (!w->pretty)
        return;
    td_buf_addc(w->out, '\n');
    for (i = 0; i < w->depth; i++)
        td_buf_adds(w->out, "  ");
}

static void put_string(struct td_buf *out, const char *s, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    size_t i, run;

    td_buf_addc(out, '"');
    for (i = 0; i < n;) {
        unsigned char ch = (unsigned char)s[i];
        int len;

        if ((run = plain_run(s + i, n - i))) {
            td_buf_add(out, s + i, run);
            i += run;
        } else if (ch == '"' || ch == '\\') {
            td_buf_addc(out, '\\');
            td_buf_addc(out, (char)ch);
            i++;
        } else if (ch == '\n') {
            td_buf_adds(out, "\\n");
            i++;
        } else if (ch < 0x20 || ch == 0x7F) {
            const char code[6] = {'\\', 'u', '0', '0', hex[ch >> 4], hex[ch & 15]}; /* printf is slow */

            td_buf_add(out, code, sizeof code);
            i++;
        } else if ((len = td_utf8_seq(s + i, n - i)) > 0) {
            td_buf_add(out, s + i, (size_t)len);
            i += (size_t)len;
        } else {
            td_buf_adds(out, REPLACEMENT);
            i++;
        }
    }
    td_buf_addc(out, '"');
}

static void begin_member(struct td_jw *w, const char *key)
{
    if (!w->first[w->depth])
        td_buf_addc(w->out, ',');
    if (w->depth)
        put_newline(w);
    w->first[w->depth] = 0;
    if (key) {
        put_string(w->out, key, strlen(key));
        td_buf_adds(w->out, w->pretty ? ": " : ":");
    }
}

static void open_level(struct td_jw *w, const char *key, char open, char close)
{
    begin_member(w, key);
    td_buf_addc(w->out, open);
    if (w->depth + 1 >= TD_JSON_MAX_DEPTH) {
        w->out->failed = true;
        return;
    }
    w->depth++;
    w->first[w->depth] = 1;
    w->close[w->depth] = close;
}

void td_jw_obj(struct td_jw *w, const char *key)
{
    open_level(w, key, '{', '}');
}

void td_jw_arr(struct td_jw *w, const char *key)
{
    open_level(w, key, '[', ']');
}

void td_jw_end(struct td_jw *w)
{
    bool empty;

    if (!w->depth)
        return;
    empty = w->first[w->depth];
    w->depth--;
    if (!empty)
        put_newline(w);
    td_buf_addc(w->out, w->close[w->depth + 1]);
    if (!w->depth && w->pretty)
        td_buf_addc(w->out, '\n');
}

void td_jw_str(struct td_jw *w, const char *key, const char *s, size_t n)
{
    begin_member(w, key);
    put_string(w->out, s, n);
}

void td_jw_cstr(struct td_jw *w, const char *key, const char *s)
{
    if (s)
        td_jw_str(w, key, s, strlen(s));
    else
        td_jw_null(w, key);
}

/* A line of ops holds four dozen integers: with printf they would be a tenth of the cost of
 * recording. */
static void put_integer(struct td_buf *out, int64_t v)
{
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    char s[24], *p = s + sizeof s;

    do
        *--p = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0)
        *--p = '-';
    td_buf_add(out, p, (size_t)(s + sizeof s - p));
}

void td_jw_i64(struct td_jw *w, const char *key, int64_t v)
{
    bool exact = v <= (1LL << 53) && v >= -(1LL << 53);

    begin_member(w, key);
    if (!exact)
        td_buf_addc(w->out, '"');
    put_integer(w->out, v);
    if (!exact)
        td_buf_addc(w->out, '"');
}

void td_jw_num(struct td_jw *w, const char *key, double v)
{
    char s[40];
    int digits;

    begin_member(w, key);
    if (isnan(v) || isinf(v)) {
        td_buf_adds(w->out, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    for (digits = 6; digits <= 17; digits++) { /* the shortest form that reads back the same */
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v)
            break;
    }
    td_buf_adds(w->out, s);
}

void td_jw_i32s(struct td_jw *w, const char *key, const int32_t *v, int n)
{
    int i;

    td_jw_arr(w, key);
    for (i = 0; i < n; i++)
        td_jw_i64(w, NULL, v[i]);
    td_jw_end(w);
}

void td_jw_bool(struct td_jw *w, const char *key, bool v)
{
    begin_member(w, key);
    td_buf_adds(w->out, v ? "true" : "false");
}

void td_jw_null(struct td_jw *w, const char *key)
{
    begin_member(w, key);
    td_buf_adds(w->out, "null");
}

void td_jw_num_or_null(struct td_jw *w, const char *key, double v)
{
    if (isnan(v))
        td_jw_null(w, key);
    else
        td_jw_num(w, key, v);
}

static void put_coded_string(struct td_jw *w, const char *key, const char *s)
{
    struct td_buf plain = TD_BUF_INIT(TD_JSON_MAX_BYTES);

    if (!strncmp(s, CODE_INT, 2)) {
        begin_member(w, key);
        td_buf_adds(w->out, s + 2);
    } else if (!strncmp(s, CODE_NAN, 2)) {
        td_jw_cstr(w, key, s + 2);
    } else if (!strstr(s, CODE_NUL)) {
        td_jw_cstr(w, key, s);
    } else {
        cJSON v = {.type = cJSON_String, .valuestring = (char *)(uintptr_t)s};

        td_json_bytes(&v, &plain);
        td_jw_str(w, key, td_buf_str(&plain), plain.len);
    }
    td_buf_release(&plain);
}

void td_jw_value(struct td_jw *w, const char *key, const cJSON *v)
{
    const cJSON *child;

    if (cJSON_IsObject(v) || cJSON_IsArray(v)) {
        cJSON_IsObject(v) ? td_jw_obj(w, key) : td_jw_arr(w, key);
        cJSON_ArrayForEach(child, v)
            td_jw_value(w, cJSON_IsObject(v) ? child->string : NULL, child);
        td_jw_end(w);
    } else if (cJSON_IsString(v)) {
        put_coded_string(w, key, v->valuestring);
    } else if (cJSON_IsNumber(v)) {
        double d = v->valuedouble;

        if (d == floor(d) && fabs(d) <= 9007199254740992.0)
            td_jw_i64(w, key, (int64_t)d);
        else
            td_jw_num(w, key, d);
    } else if (cJSON_IsBool(v)) {
        td_jw_bool(w, key, cJSON_IsTrue(v));
    } else {
        td_jw_null(w, key);
    }
}
