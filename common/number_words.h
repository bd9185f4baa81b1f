/* number_words.h - the ends of words behind a count: "1 op is", "2 ops are".
 * SPDX-License-Identifier: Apache-2.0
 *
 * "%lld op%s %s bad", n, td_plural(n), td_is(n). Of "%zu of %zu ops" the noun goes with the
 * second number and the verb with the first: "1 of 4 ops is bad", "1 of 1 op is bad". */
#ifndef TD_COMMON_NUMBER_WORDS_H
#define TD_COMMON_NUMBER_WORDS_H

#include <stdint.h>

/* The end of a noun: "", "s". */
static inline const char *td_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* The end of a verb: "1 answer differs", "2 answers differ". */
static inline const char *td_verb(int64_t n)
{
    return n == 1 ? "s" : "";
}

static inline const char *td_is(int64_t n)
{
    return n == 1 ? "is" : "are";
}

static inline const char *td_was(int64_t n)
{
    return n == 1 ? "was" : "were";
}

static inline const char *td_has(int64_t n)
{
    return n == 1 ? "has" : "have";
}

#endif
