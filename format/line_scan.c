/* line_scan.c - read numbers and strings of a JSON line in place.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/line_scan.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "format/records.h"

enum { INT_DIGITS = 18, EXACT_DIGITS = 15, NUMBER_MAX = 40 };

static bool is_digit(char c)
{
    return (unsigned)(c - '0') < 10;
}

/* ---- integers --------------------------------------------------------------------------------- */

/* Digits with a sign, and nothing else of a number behind them. */
static const char *scan_digits(const char *p, int64_t *out)
{
    const bool minus = *p == '-';
    const char *from = p += minus;
    uint64_t v = 0;

    while (is_digit(*p))
        v = v * 10 + (uint64_t)(*p++ - '0');
    *out = 0;
    if (p == from || p - from > INT_DIGITS || *p == '.' || (*p | 0x20) == 'e')
        return NULL;
    *out = minus ? -(int64_t)v : (int64_t)v; /* of so few digits: it fits */
    return p;
}

const char *td_scan_i64(const char *p, int64_t *out)
{
    if (*p != '"')
        return scan_digits(p, out);
    p = scan_digits(p + 1, out);
    return p && *p == '"' ? p + 1 : NULL;
}

const char *td_scan_i32(const char *p, int32_t *out)
{
    int64_t v;

    p = scan_digits(p, &v);
    *out = (int32_t)v;
    return p && v >= INT32_MIN && v <= INT32_MAX ? p : NULL;
}

/* ---- logprobs --------------------------------------------------------------------------------- */

/* A number that is not spelt simply, by strtod. */
static const char *scan_slowly(const char *p, double *out)
{
    char copy[NUMBER_MAX + 1], *end;
    size_t n = 0;

    while (n < NUMBER_MAX && (is_digit(p[n]) || p[n] == '-' || p[n] == '+' || p[n] == '.' || (p[n] | 0x20) == 'e')) {
        copy[n] = p[n];
        n++;
    }
    copy[n] = '\0';
    *out = strtod(copy, &end);
    return n && n < NUMBER_MAX && !*end ? p + n : NULL;
}

/* Up to 15 digits and a power of ten up to 10^22 are doubles, and so their quotient is rounded once, as strtod rounds
 * (Clinger 1990, "How to read floating point numbers accurately"). */
static const char *scan_double(const char *p, double *out)
{
    static const double POWERS[EXACT_DIGITS + 1] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *const from = p;
    const bool minus = *p == '-';
    const char *first = p += minus, *point;
    uint64_t digits = 0;
    int64_t behind = 0, n;

    while (is_digit(*p))
        digits = digits * 10 + (uint64_t)(*p++ - '0');
    n = p - first;
    if (*p == '.') {
        point = p++;
        while (is_digit(*p))
            digits = digits * 10 + (uint64_t)(*p++ - '0');
        behind = p - point - 1;
        n += behind;
    }
    if (n > EXACT_DIGITS || n == 0 || p[-1] == '.' || (*p | 0x20) == 'e')
        return n ? scan_slowly(from, out) : NULL;
    *out = (double)digits / POWERS[behind];
    *out = minus ? -*out : *out;
    return p;
}

/* The words that stand for what JSON has no number for, and null. */
static const char *scan_word(const char *p, float *out)
{
    static const struct { const char *word; float v; } WORDS[] = {
        {"null", NAN}, {"\"NaN\"", NAN}, {"\"-Infinity\"", -INFINITY}, {"\"Infinity\"", INFINITY}};
    size_t i;

    for (i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strncmp(p, WORDS[i].word, strlen(WORDS[i].word))) {
            *out = WORDS[i].v;
            return p + strlen(WORDS[i].word);
        }
    return NULL;
}

const char *td_scan_logprob(const char *p, float *out)
{
    double v;

    if (*p != '-' && !is_digit(*p))
        return scan_word(p, out);
    p = scan_double(p, &v);
    if (!p || !(v <= TD_LOGPROB_MOST && v >= -(double)FLT_MAX))
        return NULL;
    *out = (float)v;
    return p;
}

/* ---- strings ---------------------------------------------------------------------------------- */

/* The byte that the escape behind a backslash stands for; -1: it is not read here. *p: moved behind it. */
static int unescape(const char **p)
{
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t", HEX[] = "0123456789abcdefABCDEF";
    const char *at = *p, *in = *at ? strchr(FROM, *at) : NULL;
    char digits[3] = "";

    if (in) {
        *p = at + 1;
        return TO[in - FROM];
    }
    if (strncmp(at, "u00", 3) || at[3] < '0' || at[3] > '7' || !at[4] || !strchr(HEX, at[4]))
        return -1;
    memcpy(digits, at + 3, 2);
    *p = at + 5;
    return (int)strtol(digits, NULL, 16);
}

const char *td_scan_string(const char *p, char *out, size_t *len)
{
    char *o = out;

    if (*p++ != '"')
        return NULL;
    while (*p != '"') {
        const unsigned char c = (unsigned char)*p;
        int n = 1;

        if (c >= 0x80) {
            n = td_utf8_seq(p, strnlen(p, 4));
            if (n <= 0)
                return NULL;
        } else if (c < 0x20) {
            return NULL;
        } else if (c == '\\') {
            p++;
            if ((n = unescape(&p)) < 0)
                return NULL;
            *o++ = (char)n;
            continue;
        }
        do
            *o++ = *p++;
        while (--n);
    }
    *len = (size_t)(o - out);
    return p + 1;
}

/* ---- the rest --------------------------------------------------------------------------------- */

/* Behind the string that begins at p; NULL: it does not end. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p + 1 : NULL;
}

const char *td_scan_skip(const char *p, const char *end)
{
    int64_t depth = 0;

    while (p && p < end) {
        if (*p == '"') {
            p = skip_string(p, end);
            continue;
        }
        if (!depth && (*p == ',' || *p == '}' || *p == ']'))
            return p;
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        p++;
    }
    return NULL;
}
