/* sse.c - server-sent events.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/sse.h"

#include <string.h>

void td_sse_init(struct td_sse *s, td_sse_fn *fn, void *arg)
{
    *s = (struct td_sse){.fn = fn, .arg = arg};
    td_buf_init(&s->line, TD_SSE_MAX_EVENT);
    td_buf_init(&s->data, TD_SSE_MAX_EVENT);
    td_buf_init(&s->name, 256);
}

void td_sse_release(struct td_sse *s)
{
    td_buf_release(&s->line);
    td_buf_release(&s->data);
    td_buf_release(&s->name);
}

static void emit_event(struct td_sse *s)
{
    bool error = s->error || !strcmp(td_buf_str(&s->name), "error");
    struct td_sse_event ev = {td_buf_str(&s->data), s->data.len, td_buf_str(&s->name), error};

    if (s->overflow || s->data.failed) {
        s->dropped++;
    } else if (s->has_data || error) {
        s->events++;
        s->fn(s->arg, &ev);
    }
    td_buf_clear(&s->data);
    td_buf_clear(&s->name);
    s->error = s->has_data = s->overflow = false;
}

/* The value after "field:", without one leading blank. NULL: the line holds another field. */
static const char *field_value(const char *line, size_t len, const char *name, size_t *value_len)
{
    size_t n = strlen(name);

    if (len < n || memcmp(line, name, n) || (len > n && line[n] != ':'))
        return NULL;
    n += len > n;
    n += len > n && line[n] == ' ';
    *value_len = len - n;
    return line + n;
}

static void read_sse_line(struct td_sse *s)
{
    const char *line = td_buf_str(&s->line), *v;
    size_t len = s->line.len, n;

    if (!s->begun && len >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) {
        line += 3;
        len -= 3;
    }
    s->begun = true;
    if (s->line.failed) {
        s->overflow = true;
    } else if (!len) {
        emit_event(s);
    } else if (*line == ':') {
        s->comments++;
    } else if ((v = field_value(line, len, "data", &n)) ||
               (v = field_value(line, len, "error", &n))) {
        s->error |= *line == 'e';
        if (s->has_data)
            td_buf_addc(&s->data, '\n');
        td_buf_add(&s->data, v, n);
        s->has_data = true;
    } else if ((v = field_value(line, len, "event", &n))) {
        td_buf_clear(&s->name);
        td_buf_add(&s->name, v, n);
    }
    td_buf_clear(&s->line);
}

/* Where the first byte c of bytes[from, to) is; `to` where there is none. */
static size_t find_byte(const char *bytes, size_t from, size_t to, char c)
{
    const char *at = from < to ? memchr(bytes + from, c, to - from) : NULL;

    return at ? (size_t)(at - bytes) : to;
}

void td_sse_feed(struct td_sse *s, const char *bytes, size_t n)
{
    size_t i = 0, lf = find_byte(bytes, 0, n, '\n'); /* the next one; n: none */

    while (i < n) {
        size_t from = i;

        if (s->after_cr) {
            s->after_cr = false;
            if (bytes[i] == '\n') {
                i++;
                lf = find_byte(bytes, i, n, '\n');
                continue;
            }
        }
        i = find_byte(bytes, i, lf, '\r');
        td_buf_add(&s->line, bytes + from, i - from);
        if (i < n) {
            s->after_cr = bytes[i] == '\r';
            i++;
            lf = s->after_cr ? lf : find_byte(bytes, i, n, '\n');
            read_sse_line(s);
        }
    }
}

size_t td_sse_pending(const struct td_sse *s)
{
    return s->line.len + s->data.len;
}

bool td_sse_ends_with(const struct td_sse *s, const char *data)
{
    const char *v;
    size_t n;

    if (s->line.len) {
        v = s->has_data ? NULL : field_value(s->line.data, s->line.len, "data", &n);
        return v && n == strlen(data) && !memcmp(v, data, n);
    }
    return s->has_data && !strcmp(td_buf_str(&s->data), data);
}
