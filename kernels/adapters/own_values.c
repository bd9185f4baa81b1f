/* own_values.c - the values that keys of a file of own rows may have.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/adapters/own_values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define MOST_ELEMENTS (1ll << 28)     /* of a tensor of zeros */

bool td_own_fail(struct td_own_error *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return false;
}

const char *td_own_list(char *out, size_t size, const char *const *words)
{
    size_t used = 0;
    int i;

    out[0] = '\0';
    for (i = 0; words[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", words[i]);
    return out;
}

/* ---- words and numbers ----------------------------------------------------------------------- */

static bool is_argument(const char *value)
{
    size_t n = strlen(value);

    return n && n < TD_OWN_WORD && !strchr(DIGITS, value[0]) && strspn(value, LETTERS DIGITS) == n;
}

bool td_own_read_argument(char out[TD_OWN_WORD], const char *value, struct td_own_error *err)
{
    if (!is_argument(value))
        return td_own_fail(err, "\"%.60s\" is no name of an argument: letters, digits and _, at most %d", value,
                           TD_OWN_WORD - 1);
    memcpy(out, value, strlen(value) + 1);
    return true;
}

bool td_own_read_word(const char **out, const char *const *words, const char *key, const char *value,
                      struct td_own_error *err)
{
    char list[160];
    int i;

    for (i = 0; words[i]; i++)
        if (!strcmp(words[i], value)) {
            *out = words[i];
            return true;
        }
    return td_own_fail(err, "%s \"%.40s\" is not known here; it may be %s", key, value,
                       td_own_list(list, sizeof list, words));
}

/* A whole number, all of the text. */
static bool read_integer(const char *value, int64_t *out)
{
    const char *digits = value + (*value == '-');
    const size_t n = strspn(digits, DIGITS);

    if (!n || n > 18 || digits[n])
        return false;
    *out = strtoll(value, NULL, 10);
    return true;
}

bool td_own_read_number(struct td_own_number *out, int64_t least, int64_t most, const char *value,
                        struct td_own_error *err)
{
    out->given = true;
    if (is_argument(value))
        return td_own_read_argument(out->arg, value, err);
    if (!read_integer(value, &out->value) || out->value < least || out->value > most)
        return td_own_fail(err, "\"%.60s\" is neither a number from %lld to %lld nor the name of an argument", value,
                           (long long)least, (long long)most);
    return true;
}

/* ---- fixed values ---------------------------------------------------------------------------- */

/* A number with a point or an exponent. Only its characters: strtod() also reads "nan", and takes
 * the point from the locale. */
static bool read_real(const char *value, double *out)
{
    const char *at = value + (*value == '-');
    double x = 0, unit = 1;

    if (!strspn(at, DIGITS) || strlen(at) > 18)
        return false;
    for (; *at && strchr(DIGITS, *at); at++)
        x = x * 10 + (*at - '0');
    if (*at++ != '.')
        return false;
    for (; *at && strchr(DIGITS, *at); at++)
        x = x * 10 + (*at - '0'), unit *= 10;
    *out = (*value == '-' ? -x : x) / unit;
    return !*at;
}

static bool read_text(struct td_own_fixed *out, const char *value, struct td_own_error *err)
{
    const size_t n = strlen(value);

    if (n < 2 || value[n - 1] != '"' || memchr(value + 1, '"', n - 2))
        return td_own_fail(err, "the text %.60s does not end with \", or holds one", value);
    if (n - 2 >= sizeof out->text)
        return td_own_fail(err, "a text of more than %zu bytes", sizeof out->text - 1);
    memcpy(out->text, value + 1, n - 2);
    out->text[n - 2] = '\0';
    return true;
}

/* Copy the next word of *at, of size bytes at most with its NUL. False: there is none, or it is
 * longer. */
static bool next_word(const char **at, char *word, size_t size)
{
    size_t n;

    *at += strspn(*at, " \t");
    n = strcspn(*at, " \t");
    if (!n || n >= size)
        return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return true;
}

static bool read_zeros(struct td_own_fixed *out, const char *value, struct td_own_error *err)
{
    static const char *const types[] = {"I32", "U8", "F16", "BF16", "F32", NULL};
    int64_t elements = 1;
    const char *at = value, *type;
    char word[TD_OWN_WORD];

    if (!next_word(&at, word, sizeof word) || !td_own_read_word(&type, types, "the type", word, err))
        return td_own_fail(err, "zeros: a type and sizes follow, as in \"zeros I32 128\"");
    memcpy(out->text, type, strlen(type) + 1);
    for (out->ndim = 0; next_word(&at, word, sizeof word); out->ndim++) {
        int64_t n;

        if (out->ndim == TD_OWN_DIMS || !read_integer(word, &n) || n < 1 || n > MOST_ELEMENTS / elements)
            return td_own_fail(err, "zeros: at most %d sizes, of %lld elements in all", TD_OWN_DIMS,
                               MOST_ELEMENTS);
        elements *= out->shape[out->ndim] = n;
    }
    return (out->ndim && !*at) || td_own_fail(err, "zeros: sizes follow the type, as in \"zeros I32 128\"");
}

bool td_own_read_fixed(struct td_own_fixed *out, const char *value, struct td_own_error *err)
{
    if (!strcmp(value, "none")) {
        out->is = TD_OWN_NONE;
    } else if (!strcmp(value, "true") || !strcmp(value, "false")) {
        out->is = TD_OWN_BOOL;
        out->number = *value == 't';
    } else if (read_integer(value, &out->number)) {
        out->is = TD_OWN_INT;
    } else if (read_real(value, &out->real)) {
        out->is = TD_OWN_FLOAT;
    } else if (*value == '"') {
        out->is = TD_OWN_TEXT;
        return read_text(out, value, err);
    } else if (!strncmp(value, "zeros ", 6)) {
        out->is = TD_OWN_ZEROS;
        return read_zeros(out, value + 6, err);
    } else {
        return td_own_fail(err, "\"%.60s\" is no value: none, true, false, 3, 0.5, \"text\" or zeros I32 128", value);
    }
    return true;
}

/* ---- parameters of a kernel ------------------------------------------------------------------ */

static bool read_param(struct td_own_param *p, char *word, struct td_own_error *err)
{
    char *colon = strchr(word, ':');
    int64_t bytes;

    if (!colon || !read_integer(colon + 1, &bytes) || bytes < 1 || bytes > 255)
        return td_own_fail(err, "\"%.40s\": a parameter is NAME:BYTES, as a:8 and m:4", word);
    *colon = '\0';
    if (strcmp(word, "-") && !is_argument(word))
        return td_own_fail(err, "\"%.40s\": a parameter's name is a role, m, n, k, lda, ldc, or -", word);
    memcpy(p->name, word, strlen(word) + 1);
    p->bytes = (uint8_t)bytes;
    return true;
}

bool td_own_read_params(struct td_own_row *row, const char *value, struct td_own_error *err)
{
    char word[TD_OWN_WORD];

    for (row->n_params = 0; *value; row->n_params++) {
        if (!next_word(&value, word, sizeof word))
            return td_own_fail(err, "a parameter has a name of at most %d bytes", TD_OWN_WORD - 6);
        if (row->n_params == TD_GPU_PARAMS)
            return td_own_fail(err, "more than %d parameters", TD_GPU_PARAMS);
        if (!read_param(&row->param[row->n_params], word, err))
            return false;
    }
    return row->n_params || td_own_fail(err, "params: the kernel's parameters follow, as a:8 w:8 c:8 m:4");
}
