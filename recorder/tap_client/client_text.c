/* client_text.c - check text that another process sent.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/client_text.h"

#include <string.h>

bool client_is_text(const char *s, size_t n, bool may_be_empty)
{
    size_t i, len = strnlen(s, n);

    for (i = 0; i < len; i++)
        if (s[i] < ' ' || s[i] > '~')
            return false;
    return len < n && (len || may_be_empty);
}
