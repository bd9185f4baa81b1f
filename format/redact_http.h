/* redact_http.h - redact one stream of wire records: parse HTTP as far as redaction needs it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records wait in a queue per stream, so that their order stays. Bytes that are not decided yet
 * belong to a unit (a header line, an SSE line, a body): a copy of the bytes in one piece, and the
 * places in records where they lie. A record leaves when no unit holds any of its bytes and no
 * record waits before it. */
#ifndef TD_FORMAT_REDACT_HTTP_H
#define TD_FORMAT_REDACT_HTTP_H

#include "common/buf.h"
#include "format/records.h"
#include "format/redact_json.h"
#include "format/redact_values.h"

#define TD_REDACT_HOLD_MAX (16u << 20)        /* bytes of one stream held back */
#define TD_REDACT_HOLD_ALL_MAX (128u << 20)   /* of all streams together */
#define TD_REDACT_LINE_MAX (64u << 10)        /* of a header line */
#define TD_REDACT_MAX_HEADERS 256

struct td_redact_counts { int64_t headers, urls, json, unparsed, over_limit, values; }; /* bytes overwritten, by reason */
typedef int td_redact_emit(void *ctx, const struct td_wire *rec); /* rec is valid for the call */

struct td_redact_http {                       /* shared by all streams */
    struct td_redact_rules rules;
    struct td_redact_values *values;          /* of secret headers: overwritten wherever they come back */
    const char *const *headers;               /* besides those with a secret's name */
    int64_t header_hits[TD_REDACT_MAX_HEADERS], path_hits[TD_REDACT_MAX_PATHS];
    struct td_redact_counts counts;
    uint64_t held;                            /* bytes in units */
};

struct td_redact_held;
struct td_redact_span { struct td_redact_held *rec; size_t at, len; };

enum td_redact_state {
    TD_RS_START,          /* a start line is due */
    TD_RS_HEADERS,
    TD_RS_UNSYNCED,       /* no HTTP: lines are still searched for headers */
    TD_RS_AMBIGUOUS,      /* the same up to the end: readers differ in where the headers ended */
    TD_RS_LENGTH,         /* `left` bytes of body */
    TD_RS_UNTIL_CLOSE,
    TD_RS_CHUNK_SIZE, TD_RS_CHUNK_DATA, TD_RS_CHUNK_END, TD_RS_TRAILERS
};

/* What happens to the body of a message. */
enum td_redact_body {
    TD_RB_PASS,           /* no rule applies to it: it stays as it is */
    TD_RB_COMPLETE,       /* hold all of it, then redact it as one JSON text */
    TD_RB_LINES,          /* server-sent events: redact each line on its own */
    TD_RB_WIPE            /* overwrite all of it, because it cannot be parsed or held */
};

struct td_redact_side {                       /* one direction */
    enum td_redact_state state;
    enum td_redact_body body;
    bool request;
    bool over;                                /* overwritten because a limit was hit */
    bool first_chunk;                         /* "chunked", but no chunk was seen yet */
    uint64_t left;
    char chunk[32];                           /* a chunk size line so far */
    size_t n_chunk;
    struct td_buf unit;
    struct td_redact_span *span; size_t n_spans, cap_spans;
    /* of the message whose headers are read */
    int status;
    int64_t length;                           /* -1: not given */
    bool chunked, encoded, sse, hide_fold;
};

struct td_redact_stream {
    uint32_t stream;
    struct td_redact_stream *next;
    struct td_redact_held *head, **tail;
    struct td_redact_side side[2];
    bool head_request;                        /* the answer to HEAD has no body */
};

struct td_redact_stream *td_redact_stream_new(uint32_t stream);
void td_redact_stream_free(struct td_redact_http *h, struct td_redact_stream *s);
int td_redact_stream_add(struct td_redact_http *h, struct td_redact_stream *s,
                         const struct td_wire *rec); /* TD_ENOMEM */
/* No more bytes will come: redact what is held. */
void td_redact_stream_end(struct td_redact_http *h, struct td_redact_stream *s);
int td_redact_stream_emit(struct td_redact_http *h, struct td_redact_stream *s, td_redact_emit *emit, void *ctx);

#endif
