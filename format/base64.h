/* base64.h - base64 (RFC 4648, with padding), for bytes in JSON that are no UTF-8.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_BASE64_H
#define TD_FORMAT_BASE64_H

#include "common/buf.h"

/* Append n bytes as base64. */
void td_base64_add(struct td_buf *out, const void *data, size_t n);
int td_base64_decode(const char *s, struct td_buf *out); /* appends; TD_EINVAL: not base64, and nothing is appended */

#endif
