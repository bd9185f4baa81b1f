/* stream_notes.h - the notes of a stream of the wire log (docs/format.md, "wire.zst: notes").
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_STREAM_NOTES_H
#define TD_WIRE_STREAM_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

/* Whose exchange a stream is. All strings are borrowed. */
struct td_open_note {
    const char *prompt_id, *category, *phase, *api, *method, *path;
    int64_t repeat, concurrency;
    bool grouped; int64_t group;  /* grouped: it was sent with others */
    int64_t loop;                 /* number of its closed loop; 0: none */
    const char *role;             /* "" or NULL: none */
    int64_t scored_from, due_ns;  /* 0: none */
    int64_t connection;           /* number of the connection that it used; 0: not told */
    bool held;                    /* its time came while as many as the client can have were in flight */
};
/* Append {"open":{"prompt_id":..., ...}}. */
void td_open_note(struct td_buf *out, const struct td_open_note *note);
/* Append {"uncompressed":"gzip"}: the answer's body was compressed so, and is here as it was before. */
void td_uncompressed_note(struct td_buf *out, const char *coding);
/* Append {"close":{"ok":true}}, or {"close":{"ok":false,"kind":...,"error":...}}.
 *   kind  : NULL: the exchange is complete; "cut", "timeout" ...
 *   error : one sentence, where kind is given */
void td_close_note(struct td_buf *out, const char *kind, const char *error);

#endif
