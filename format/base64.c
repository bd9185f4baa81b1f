/* base64.c - RFC 4648 base64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/base64.h"

#include <stdint.h>
#include <string.h>

#include "common/error.h"

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void td_base64_add(struct td_buf *out, const void *data, size_t n)
{
    const uint8_t *p = data;

    for (; n; p += 3, n -= n < 3 ? n : 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0) | (n > 2 ? p[2] : 0u);
        char q[4] = {DIGITS[v >> 18], DIGITS[v >> 12 & 63], n > 1 ? DIGITS[v >> 6 & 63] : '=', n > 2 ? DIGITS[v & 63] : '='};

        td_buf_add(out, q, 4);
    }
}

int td_base64_decode(const char *s, struct td_buf *out)
{
    size_t n = strlen(s), i, j;

    if (n % 4)
        return TD_EINVAL;
    for (i = 0; i < n; i += 4) {
        size_t pad = i + 4 == n ? (size_t)(s[i + 3] == '=') + (s[i + 2] == '=' && s[i + 3] == '=') : 0;
        uint32_t v = 0;

        for (j = 0; j < 4; j++) {
            const char *d = j < 4 - pad ? memchr(DIGITS, s[i + j], 64) : DIGITS;

            if (!d)
                return TD_EINVAL;
            v = v << 6 | (uint32_t)(d - DIGITS);
        }
        for (j = 0; j < 3 - pad; j++)
            td_buf_addc(out, (char)(v >> (16 - 8 * j)));
    }
    return out->failed ? TD_ELIMIT : TD_OK;
}
