/* within_number.c - are digits in a text a part of a longer number?
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/within_number.h"

#include <ctype.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is there, in front of s[at], what no number begins behind? */
static bool is_behind_word(const char *s, size_t at)
{
    return at && (isalnum((unsigned char)s[at - 1]) || memchr("%\\#&_", s[at - 1], 5));
}

/* May a number's first digit stand at s[at]? */
static bool may_begin(const char *s, size_t at)
{
    return !is_behind_word(s, at && s[at - 1] == '-' ? at - 1 : at); /* "id-1" */
}

/* Where the digits and points begin that stand before `at`. */
static size_t begin_of(const char *s, size_t at)
{
    size_t i;

    for (i = at; i && at - i < TD_NUMBER_LONGEST && (is_digit(s[i - 1]) || s[i - 1] == '.'); i--)
        ;
    return i;
}

/* The digits and points before `at`.
 *   digits : whether there is a digit among them
 * False: they are no part of a number. */
static bool read_left(const char *s, size_t at, bool *digits)
{
    const size_t begin = begin_of(s, at);
    size_t i;

    *digits = false;
    for (i = begin; i < at; i++)
        *digits |= is_digit(s[i]);
    return at - begin < TD_NUMBER_LONGEST && may_begin(s, begin);
}

size_t td_within_number_before(const char *s, size_t at)
{
    size_t begin = begin_of(s, at);

    begin -= begin && s[begin - 1] == '-';
    return at - begin + is_behind_word(s, begin);
}

bool td_within_number_by_left(const char *s, size_t at)
{
    bool digits;

    return read_left(s, at, &digits) && digits;
}

/* Does a number go on at s[at]: "1", ".1", "e1", "e+1"? */
static enum td_within_number read_right(const char *s, size_t n, size_t at, bool more)
{
    if (at < n && s[at] == '.') {
        at++;
    } else if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        at++;
        at += at < n && (s[at] == '+' || s[at] == '-');
    }
    if (at >= n)
        return more ? TD_WITHIN_OPEN : TD_WITHIN_NONE;
    return is_digit(s[at]) ? TD_WITHIN_NUMBER : TD_WITHIN_NONE;
}

enum td_within_number td_within_number(const char *s, size_t n, size_t at, size_t len, bool more)
{
    bool digits;

    if (!read_left(s, at, &digits))
        return TD_WITHIN_NONE;
    return digits ? TD_WITHIN_NUMBER : read_right(s, n, at + len, more);
}
