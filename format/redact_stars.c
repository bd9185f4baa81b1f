/* redact_stars.c - overwrite bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/redact_stars.h"

int64_t td_redact_stars(char *s, size_t n)
{
    int64_t changed = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (s[i] != '\r' && s[i] != '\n' && s[i] != '*') {
            s[i] = '*';
            changed++;
        }
    return changed;
}
