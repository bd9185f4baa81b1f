/* messages.h - what of one answer came when, message by message, read from the wire log.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An exchange keeps the events that brought tokens; the clients of other tools also count those that bring none: a role
 * alone, an end without text, the usage. A message is an SSE event with data other than [DONE], or the body of an
 * answer that is not streamed. Its time is that of the read that completed it. */
#ifndef TD_METRICS_MESSAGES_H
#define TD_METRICS_MESSAGES_H

#include "common/buf.h"
#include "format/records.h"

/* What a message holds. */
enum {
    TD_MESSAGE_CHOICE = 1, /* choices that are not empty, or a token of a dialect without choices */
    TD_MESSAGE_TEXT = 2,   /* text of the answer */
    TD_MESSAGE_OTHER = 4   /* reasoning or a tool call */
};

struct td_message { int64_t t_ns; int32_t tokens; unsigned holds; };

struct td_messages {
    int64_t t_open_ns;     /* the request was handed to the client; a passive recording: its first packet. 0: not known */
    int64_t t_written_ns;  /* first bytes of the request written; 0: none were */
    bool streamed;
    struct td_message *v; size_t n, cap;
    struct td_buf text;    /* of the answer, without its reasoning */
};

struct td_messages_reader;

/* NULL: out of memory. */
struct td_messages_reader *td_messages_new(void);
void td_messages_free(struct td_messages_reader *r);
/* Feed the records of one stream, in order. Returns 1: this was its last one; TD_OK; TD_ENOMEM. What makes no sense is
 * no message. */
int td_messages_feed(struct td_messages_reader *r, const struct td_wire *rec);
/* The note that ends a stream? */
bool td_messages_is_last(const struct td_wire *rec);
/* What came so far; borrowed. An answer that is not streamed is there after the last record. */
const struct td_messages *td_messages_get(const struct td_messages_reader *r);

#endif
