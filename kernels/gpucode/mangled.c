/* mangled.c - the kernel's name and template arguments in a mangled symbol.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/mangled.h"

#include <stddef.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool td_gpu_symbol_is(const char *symbol, const char *identifier)
{
    size_t want = strlen(identifier);
    const char *p;

    if (!strcmp(symbol, identifier))
        return true;
    if (strncmp(symbol, "_Z", 2))
        return false;
    for (p = symbol + 2; *p;) {
        size_t len = 0;

        if (!is_digit(*p)) {
            p++;
            continue;
        }
        while (is_digit(*p) && len < 4096)
            len = len * 10 + (size_t)(*p++ - '0');
        if (len == want && !strncmp(p, identifier, want))
            return true;
        if (strnlen(p, len) < len)
            return false;
        p += len; /* never past the end */
    }
    return false;
}

/* "Lb1E", "Lin1E": the literal at p, which points behind its L. */
static bool read_literal(const char *p, int64_t *value)
{
    bool negative;

    if (!*p || !strchr("bijlmxy", *p++))
        return false;
    negative = *p == 'n';
    p += negative;
    for (*value = 0; is_digit(*p) && *value <= INT64_MAX / 10 - 1; p++)
        *value = *value * 10 + (*p - '0');
    if (*p != 'E' || !is_digit(p[-1]))
        return false;
    *value = negative ? -*value : *value;
    return true;
}

int64_t td_gpu_symbol_argument(const char *symbol, int n)
{
    const char *p = symbol;
    int64_t value;

    while ((p = strchr(p, 'L')))
        if (read_literal(++p, &value) && n-- == 0)
            return value;
    return TD_GPU_NO_ARGUMENT;
}
