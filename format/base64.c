/* base64.c - RFC 4648 base64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/base64.h"

#include <stdint.h>
#include <string.h>

#include "common/error.h"

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The value of a digit, and 1; 0: it is none. */
static const uint8_t PLACE[256] = {
    ['A'] = 1, ['B'] = 2, ['C'] = 3, ['D'] = 4, ['E'] = 5, ['F'] = 6, ['G'] = 7, ['H'] = 8, ['I'] = 9,
    ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
    ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27,
    ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
    ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45,
    ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
    ['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63,
    ['/'] = 64};

void td_base64_add(struct td_buf *out, const void *data, size_t n)
{
    const uint8_t *p = data;
    char *to = td_buf_reserve(out, (n + 2) / 3 * 4);

    if (!to)
        return;
    out->len += (n + 2) / 3 * 4;
    out->data[out->len] = '\0';
    for (; n; p += 3, to += 4, n -= n < 3 ? n : 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0u);

        to[0] = DIGITS[v >> 18];
        to[1] = DIGITS[v >> 12 & 63];
        to[2] = n > 1 ? DIGITS[v >> 6 & 63] : '=';
        to[3] = n > 2 ? DIGITS[v & 63] : '=';
    }
}

int td_base64_decode(const char *s, struct td_buf *out)
{
    const uint8_t *from = (const uint8_t *)s;
    const size_t n = strlen(s);
    size_t i, at = 0, pad;
    uint8_t *to;

    if (n % 4)
        return TD_EINVAL;
    if (!n)
        return TD_OK;
    pad = (size_t)(s[n - 1] == '=') + (s[n - 2] == '=' && s[n - 1] == '=');
    to = (uint8_t *)td_buf_reserve(out, n / 4 * 3 - pad);
    if (!to)
        return TD_ELIMIT;
    for (i = 0; i < n; i += 4) {
        const size_t missing = i + 4 == n ? pad : 0;
        const uint32_t d[4] = {PLACE[from[i]], PLACE[from[i + 1]], missing > 1 ? 1 : PLACE[from[i + 2]], missing ? 1 : PLACE[from[i + 3]]};
        const uint32_t v = (d[0] - 1) << 18 | (d[1] - 1) << 12 | (d[2] - 1) << 6 | (d[3] - 1);

        if (!d[0] || !d[1] || !d[2] || !d[3]) {
            to[0] = '\0';
            return TD_EINVAL;
        }
        to[at++] = (uint8_t)(v >> 16);
        if (missing < 2)
            to[at++] = (uint8_t)(v >> 8);
        if (!missing)
            to[at++] = (uint8_t)v;
    }
    out->len += at;
    out->data[out->len] = '\0';
    return TD_OK;
}
