/* spelling.h - read characters of a foreign text, however they are escaped.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server that repeats a value may write it as a string of JSON, in a URL, in HTML, or as one of these
 * inside another. Read are: \" and any other \C, \u0022 and \x22 behind one or many backslashes; %22 and
 * %2522, in digits of either case; &quot; &#34; &#x22; &amp;quot;. Letters become lower case, '+' a blank
 * (as forms write it). A backslash is read as nothing, so that a text and the same text with more
 * escapes read the same. */
#ifndef TD_FORMAT_SPELLING_H
#define TD_FORMAT_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

enum {
    TD_SPELLED_OTHER = 0x80,   /* one that is no ASCII, or a byte of it */
    TD_SPELLED_NOTHING = -1,   /* no character: the text ends, or too many escapes stand in one another */
    TD_SPELLED_OPEN = -2       /* the text ends where the character may go on */
};

/* Read a character of the n bytes at s.
 *   at   : where it begins; moved behind it, but for NOTHING and OPEN
 *   more : the text may go on behind n
 * Returns 0 to 0x7f, or one of the above. */
int td_spelled(const char *s, size_t n, size_t *at, bool more);

#endif
