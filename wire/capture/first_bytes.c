/* first_bytes.c - which protocol is spoken, by the first bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/capture/first_bytes.h"

#include <string.h>

bool td_first_bytes_are(const uint8_t *data, size_t n, const char *text)
{
    const size_t k = strlen(text);

    return memcmp(data, text, n < k ? n : k) == 0;
}

bool td_first_bytes_are_request(const uint8_t *data, size_t n)
{
    static const char *const METHODS[] = {"POST ", "GET ", "HEAD ", "PUT ", "DELETE ", "OPTIONS ", "PATCH "};
    size_t i;

    for (i = 0; i < sizeof METHODS / sizeof *METHODS; i++)
        if (td_first_bytes_are(data, n, METHODS[i]))
            return true;
    return false;
}

bool td_first_bytes_are_tls(const uint8_t *data, size_t n)
{
    if (n < 3)
        return data[0] == 22 && (n < 2 || data[1] == 3);
    return data[0] >= 20 && data[0] <= 23 && data[1] == 3 && data[2] <= 4;
}

/* Do frames of HTTP/2 (RFC 9113, 4.1) begin here, one behind the other up to the last byte? Some types have a
 * length of their own. */
static bool is_http2_frames(const uint8_t *p, size_t n)
{
    enum { HEAD = 9, TYPES = 10, ANY = -1, SETTINGS = 4 };
    static const int LENGTH[TYPES] = {ANY, ANY, 5, 4, ANY, ANY, 8, ANY, 4, ANY};

    while (n >= HEAD && p[0] == 0 && p[3] < TYPES && p[5] < 0x80) {
        const int length = p[1] << 8 | p[2];

        if ((LENGTH[p[3]] != ANY && length != LENGTH[p[3]]) || (p[3] == SETTINGS && length % 6))
            return false;
        if ((size_t)length + HEAD >= n)
            return true;
        p += length + HEAD;
        n -= (size_t)length + HEAD;
    }
    return false;
}

bool td_first_bytes_are_http2(const uint8_t *data, size_t n)
{
    return (n >= 4 && td_first_bytes_are(data, n, "PRI * HTTP/2.0")) || is_http2_frames(data, n);
}

bool td_first_bytes_are_foreign(const uint8_t *data, size_t n)
{
    return td_first_bytes_are_tls(data, n) || td_first_bytes_are_http2(data, n);
}
