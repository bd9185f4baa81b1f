/* op_rounding.c - what an op declares that its kernel rounds, word by word.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops/op_rounding.h"

#include <stdio.h>
#include <string.h>

static bool is_word(const char *at, size_t n, const char *word)
{
    return n == strlen(word) && !memcmp(at, word, n);
}

static bool set_once(bool *flag)
{
    const bool was = *flag;

    *flag = true;
    return !was;
}

static bool read_word(const char *at, size_t n, struct td_op_rounding *r)
{
    if (is_word(at, n, "bias-after"))
        return set_once(&r->bias_after);
    if (is_word(at, n, "sum-e8m13"))
        return set_once(&r->sums_cut);
    if (!n || n >= sizeof r->factors || r->factors[0])
        return false;
    snprintf(r->factors, sizeof r->factors, "%.*s", (int)n, at);
    return true;
}

bool td_op_rounding_read(const char *words, struct td_op_rounding *r)
{
    memset(r, 0, sizeof *r);
    while (*words) {
        const size_t n = strcspn(words, "+");

        if (!read_word(words, n, r) || (words[n] && !words[n + 1]))
            return false;
        words += n + (words[n] != '\0');
    }
    if (!r->factors[0])
        strcpy(r->factors, "none");
    return true;
}
