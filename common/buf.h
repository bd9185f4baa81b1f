/* buf.h - a growable byte buffer with a maximum.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An append that would pass `max` or runs out of memory sets `failed` and changes nothing from then on, so a series of
 * appends needs one check at its end. `data` is always NUL-terminated (the NUL is not counted) once anything was added. */
#ifndef TD_COMMON_BUF_H
#define TD_COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct td_buf {
    char *data;   /* NULL while empty */
    size_t len, cap, max;
    bool failed;
};

#define TD_BUF_INIT(max_bytes) {NULL, 0, 0, (max_bytes), false}

void td_buf_init(struct td_buf *b, size_t max_bytes);
void td_buf_release(struct td_buf *b);                       /* frees; may be used again */
void td_buf_clear(struct td_buf *b);                         /* len = 0, failed = false, memory kept */
int td_buf_add(struct td_buf *b, const void *data, size_t n); /* TD_OK or TD_ELIMIT / TD_ENOMEM */
int td_buf_addc(struct td_buf *b, char c);
int td_buf_adds(struct td_buf *b, const char *s);
int td_buf_addf(struct td_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n more bytes at data + len, for the caller to fill and then add to len; NULL as for a failed append. */
char *td_buf_reserve(struct td_buf *b, size_t n);
void td_buf_consume(struct td_buf *b, size_t n);             /* drop the first n bytes */
char *td_buf_detach(struct td_buf *b, size_t *len);          /* caller frees; the buffer is empty after */
const char *td_buf_str(const struct td_buf *b);              /* "" when empty */

#endif
