/* stream_notes.c - how a stream of the wire log began, and how it ended.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream_notes.h"

#include "common/json.h"

void td_open_note(struct td_buf *out, const struct td_open_note *note)
{
    struct td_jw w;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_obj(&w, "open");
    td_jw_cstr(&w, "prompt_id", note->prompt_id);
    td_jw_cstr(&w, "category", note->category);
    td_jw_i64(&w, "repeat", note->repeat);
    td_jw_i64(&w, "concurrency", note->concurrency);
    td_jw_cstr(&w, "phase", note->phase);
    td_jw_cstr(&w, "api", note->api);
    td_jw_cstr(&w, "method", note->method);
    td_jw_cstr(&w, "path", note->path);
    if (note->grouped)
        td_jw_i64(&w, "group", note->group);
    if (note->loop)
        td_jw_i64(&w, "loop", note->loop);
    if (note->role && *note->role)
        td_jw_cstr(&w, "role", note->role);
    if (note->scored_from)
        td_jw_i64(&w, "scored_from", note->scored_from);
    if (note->due_ns)
        td_jw_i64(&w, "due_ns", note->due_ns);
    if (note->connection)
        td_jw_i64(&w, "connection", note->connection);
    if (note->held)
        td_jw_bool(&w, "held", true);
    td_jw_end(&w);
    td_jw_end(&w);
}

void td_uncompressed_note(struct td_buf *out, const char *coding)
{
    struct td_jw w;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_cstr(&w, "uncompressed", coding);
    td_jw_end(&w);
}

void td_close_note(struct td_buf *out, const char *kind, const char *error)
{
    struct td_jw w;

    td_jw_init(&w, out, false);
    td_jw_obj(&w, NULL);
    td_jw_obj(&w, "close");
    td_jw_bool(&w, "ok", !kind);
    if (kind) {
        td_jw_cstr(&w, "kind", kind);
        td_jw_cstr(&w, "error", error);
    }
    td_jw_end(&w);
    td_jw_end(&w);
}
