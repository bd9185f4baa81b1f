/* symbol.c - a kernel's name without what changes from build to build.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/symbol.h"

#include <string.h>

#include "common/error.h"

#define ANONYMOUS "_GLOBAL__N_"
#define STATIC "__nv_static_"
#define MAX_SYMBOL 65536

bool td_gpu_symbol_is_local(const char *symbol)
{
    return strstr(symbol, ANONYMOUS) || !strncmp(symbol, STATIC, strlen(STATIC));
}

/* Digits at p: their value, and *end behind them. 0: none, or more than a name has. */
static size_t read_length(const char *p, const char **end)
{
    size_t n = 0;

    while (*p >= '0' && *p <= '9' && n < MAX_SYMBOL)
        n = n * 10 + (size_t)(*p++ - '0');
    *end = p;
    return n < MAX_SYMBOL ? n : 0;
}

/* Behind "__nv_static_24_" and its 24 characters and "_"; the symbol itself if it is not of that form. */
static const char *skip_static(const char *symbol)
{
    const char *p;
    size_t len;

    if (strncmp(symbol, STATIC, strlen(STATIC)))
        return symbol;
    len = read_length(symbol + strlen(STATIC), &p);
    if (!len || *p != '_' || strnlen(p + 1, len + 2) < len + 2 || p[1 + len] != '_')
        return symbol;
    return p + len + 2;
}

/* Are the digits between p and name the length of an identifier, not a literal (Li128E, E3E) or a
 * substitution (S1_, T0_, A4_)? Taken for none when in doubt: then the text is merely copied. */
static bool is_length(const char *start, const char *p, const char *name, size_t len)
{
    char before = p > start ? p[-1] : 0;

    if (!len || strnlen(name, len) < len || (p - start >= 2 && p[-2] == 'L'))
        return false;
    if (*name == '_' && before && strchr("STAp", before))
        return false;
    return *name != 'E' || before != 'E';
}

int td_gpu_symbol_normal(const char *symbol, struct td_buf *out)
{
    const char *start = skip_static(symbol), *p = start;

    if (strncmp(start, "_Z", 2)) {
        td_buf_adds(out, start);
        p = start + strlen(start);
    }
    while (*p) {
        const char *name;
        size_t len = read_length(p, &name);

        if (name == p)
            name = p + 1;
        else if (!is_length(start, p, name, len))
            ;
        else if (!strncmp(name, ANONYMOUS, strlen(ANONYMOUS)) && len >= strlen(ANONYMOUS)) {
            td_buf_adds(out, "12" ANONYMOUS "1");
            p = name += len;
        } else
            name += len;
        td_buf_add(out, p, (size_t)(name - p));
        p = name;
    }
    return out->failed ? TD_ELIMIT : TD_OK;
}

bool td_gpu_symbol_same(const char *a, const char *b)
{
    struct td_buf x, y;
    bool same;

    if (!strcmp(a, b))
        return true;
    if (!td_gpu_symbol_is_local(a) && !td_gpu_symbol_is_local(b))
        return false;
    td_buf_init(&x, MAX_SYMBOL);
    td_buf_init(&y, MAX_SYMBOL);
    same = !td_gpu_symbol_normal(a, &x) && !td_gpu_symbol_normal(b, &y) && !strcmp(td_buf_str(&x), td_buf_str(&y));
    td_buf_release(&x);
    td_buf_release(&y);
    return same;
}
