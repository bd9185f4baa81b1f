/* buf.c - growable byte buffer with a maximum.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/out_of_memory.h"

void td_buf_init(struct td_buf *b, size_t max_bytes)
{
    *b = (struct td_buf)TD_BUF_INIT(max_bytes);
}

void td_buf_release(struct td_buf *b)
{
    free(b->data);
    td_buf_init(b, b->max);
}

void td_buf_clear(struct td_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

static int grow_more(struct td_buf *b, size_t n)
{
    size_t want, cap = b->cap ? b->cap : 64;
    char *p;

    if (b->failed)
        return TD_ELIMIT;
    if (n > b->max || b->len > b->max - n) {
        b->failed = true;
        return TD_ELIMIT;
    }
    want = b->len + n + 1;
    if (want <= b->cap)
        return TD_OK;
    while (cap < want)
        cap += cap / 2 + 64;
    p = realloc(b->data, cap);
    if (!p) {
        td_out_of_memory_note();
        b->failed = true;
        return TD_ENOMEM;
    }
    b->data = p;
    b->cap = cap;
    return TD_OK;
}

static inline int grow_buf(struct td_buf *b, size_t n)
{
    if (!b->failed && n < b->cap - b->len && n <= b->max - b->len) /* nearly always; len < cap, or both are 0; len <= max */
        return TD_OK;
    return grow_more(b, n);
}

char *td_buf_reserve(struct td_buf *b, size_t n)
{
    return grow_buf(b, n) ? NULL : b->data + b->len;
}

int td_buf_add(struct td_buf *b, const void *data, size_t n)
{
    int rc = grow_buf(b, n);

    if (rc)
        return rc;
    if (n)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
    return TD_OK;
}

int td_buf_addc(struct td_buf *b, char c)
{
    int rc = grow_buf(b, 1);

    if (rc)
        return rc;
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
    return TD_OK;
}

int td_buf_adds(struct td_buf *b, const char *s)
{
    return td_buf_add(b, s, strlen(s));
}

int td_buf_addf(struct td_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n, rc;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    rc = n < 0 ? TD_EINVAL : grow_buf(b, (size_t)n);
    if (!rc) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return rc;
}

void td_buf_consume(struct td_buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
    } else {
        memmove(b->data, b->data + n, b->len - n);
        b->len -= n;
    }
    if (b->data)
        b->data[b->len] = '\0';
}

char *td_buf_detach(struct td_buf *b, size_t *len)
{
    char *p = b->data ? b->data : calloc(1, 1);

    if (len)
        *len = b->len;
    b->data = NULL;
    td_buf_init(b, b->max);
    return p;
}

const char *td_buf_str(const struct td_buf *b)
{
    return b->data ? b->data : "";
}
