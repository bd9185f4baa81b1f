/* writer_thread.c - the thread behind a recording: redaction, frames, blobs, the ledger, commits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Everything here but the queue, the failure, the facts and the counts belongs to this thread and needs no lock. */
#include "format/writer_thread.h"

#include <string.h>

#include "common/clock.h"
#include "common/proc.h"
#include "format/bytes.h"
#include "format/frames.h"
#include "format/writer_ledger.h"
#include "format/writer_queue.h"

#define WIRE_HEAD 20

/* ---- streams ------------------------------------------------------------------------------------- */

static int flush_stream(struct td_writer *w, int kind, struct td_error *err)
{
    struct td_writer_stream *s = &w->stream[kind];
    struct td_frame_head h = {.kind = (uint16_t)(kind + 1), .number = s->frames, .records = s->records};
    int rc;

    if (!s->raw.len)
        return TD_OK;
    rc = td_frame_write(&s->sink, w->z, w->level, &h, s->raw.data, s->raw.len, &w->scratch, err);
    if (rc)
        return rc;
    s->frames++;
    s->total += s->records;
    s->records = 0;
    td_buf_clear(&s->raw);
    return TD_OK;
}

/* A frame is full: write it. An op is never there without the step that it names: steps come first. */
static int flush_full(struct td_writer *w, int kind, struct td_error *err)
{
    int rc = kind == TD_STREAM_OPS ? flush_stream(w, TD_STREAM_STEPS, err) : TD_OK;

    return rc ? rc : flush_stream(w, kind, err);
}

static int add_record(struct td_writer *w, int kind, const void *head, size_t n_head,
                      const void *data, size_t n, struct td_error *err)
{
    struct td_writer_stream *s = &w->stream[kind];
    int rc;

    if (s->raw.len && s->raw.len + n_head + n > TD_FRAME_MAX_RAW && flush_full(w, kind, err))
        return err->code;
    if (!s->raw.len)
        s->since_ns = w->item_ns;
    rc = td_buf_add(&s->raw, head, n_head);
    if (!rc)
        rc = td_buf_add(&s->raw, data, n);
    if (rc == TD_ENOMEM)
        return td_fail(err, rc, "%s: out of memory", s->sink.path);
    if (rc)
        return td_fail(err, rc, "%s: a record of %zu bytes is more than the maximum of %u",
                       s->sink.path, n_head + n, TD_FRAME_MAX_RAW);
    s->records++;
    return s->raw.len >= TD_FRAME_COMMIT_RAW ? flush_full(w, kind, err) : TD_OK;
}

struct emit_ctx { struct td_writer *w; struct td_error *err; };

static int emit_wire(void *ctx, const struct td_wire *rec)
{
    struct emit_ctx *c = ctx;
    uint8_t head[WIRE_HEAD];

    td_put64(head, (uint64_t)rec->t_ns);
    td_put32(head + 8, rec->stream);
    head[12] = (uint8_t)rec->dir;
    head[13] = rec->redacted ? 1 : 0;
    td_put16(head + 14, 0);
    td_put32(head + 16, (uint32_t)rec->len);
    return add_record(c->w, TD_STREAM_WIRE, head, sizeof head, rec->data, rec->len, c->err);
}

static int add_line(struct td_writer *w, int kind, const char *line, size_t n, struct td_error *err)
{
    return add_record(w, kind, line, n, "\n", 1, err);
}

/* ---- ledger and commits --------------------------------------------------------------------------- */

static void count_redaction(struct td_writer *w)
{
    const struct td_redact_counts *c = td_redactor_counts(w->redactor);

    td_writer_count_set_bytes(w, "redacted.headers", c->headers);
    td_writer_count_set_bytes(w, "redacted.urls", c->urls);
    td_writer_count_set_bytes(w, "redacted.json", c->json);
    td_writer_count_set_bytes(w, "redacted.unparsed", c->unparsed);
    td_writer_count_set_bytes(w, "redacted.over_limit", c->over_limit);
    td_writer_count_set_bytes(w, "redacted.values", c->values);
}

static int flush_ledger(struct td_writer *w, struct td_error *err)
{
    struct td_buf lines = TD_BUF_INIT(TD_FRAME_MAX_RAW);
    char *p, *nl;
    int rc;

    count_redaction(w);
    rc = td_writer_ledger_lines(w, &lines);
    if (rc)
        td_fail(err, rc, "%s: %s", w->dir, td_code_name(rc));
    for (p = lines.data; !rc && p && p < lines.data + lines.len; p = nl + 1) {
        nl = memchr(p, '\n', (size_t)(lines.data + lines.len - p));
        rc = add_line(w, TD_STREAM_LEDGER, p, (size_t)(nl - p), err);
    }
    td_buf_release(&lines);
    return rc;
}

static int commit_all(struct td_writer *w, struct td_error *err)
{
    int k, rc = flush_ledger(w, err);

    for (k = 0; !rc && k < TD_WRITER_STREAMS; k++)
        rc = flush_stream(w, k, err);
    return rc;
}

/* When the oldest record was queued that is not committed; 0: all are. */
static int64_t oldest_ns(const struct td_writer *w)
{
    int64_t t = 0;
    int k;

    for (k = 0; k < TD_WRITER_STREAMS; k++)
        if (w->stream[k].raw.len && (!t || w->stream[k].since_ns < t))
            t = w->stream[k].since_ns;
    return t;
}

/* Tell others how large the files are. */
static void note_bytes(struct td_writer *w)
{
    int64_t sum = (int64_t)w->pack.size;
    int k;

    for (k = 0; k < TD_WRITER_STREAMS; k++)
        sum += (int64_t)w->stream[k].sink.size;
    atomic_store(&w->bytes, sum);
}

/* ---- its loop ------------------------------------------------------------------------------------- */

static int handle_wire(struct td_writer *w, struct td_writer_item *it, struct td_error *err)
{
    struct emit_ctx ctx = {w, err};
    struct td_wire rec;
    size_t at;
    int rc = TD_OK;

    for (at = 0; !rc && at < it->used; at += rec.len) {
        memcpy(&rec, it->data + at, sizeof rec);
        at += sizeof rec;
        rec.data = it->data + at;
        rc = td_redactor_wire(w->redactor, &rec, emit_wire, &ctx);
    }
    return rc;
}

static int handle_item(struct td_writer *w, struct td_writer_item *it, struct td_error *err)
{
    w->item_ns = it->queued_ns;
    switch (it->type) {
    case TD_ITEM_WIRE:
        return handle_wire(w, it, err);
    case TD_ITEM_LINE:
        if (it->stream == TD_STREAM_EXCHANGES)
            td_redactor_exchange(w->redactor, (char *)it->data, it->len);
        return add_line(w, it->stream, (const char *)it->data, it->len, err);
    case TD_ITEM_BLOB:
        return td_pack_write(&w->pack, &w->index, w->z, w->blob_level, it->hash, it->data, it->len,
                             it->elem_bytes, &w->scratch, err);
    case TD_ITEM_COMMIT:
        return commit_all(w, err);
    }
    return TD_OK;
}

/* Commit when the oldest record has waited long enough, and when facts are there that nothing was
 * committed with. */
static void commit_if_due(struct td_writer *w, struct td_error *why)
{
    const int64_t oldest = oldest_ns(w);
    const bool due = oldest ? td_clock_mono_ns() - oldest >= TD_FRAME_COMMIT_NS
                            : td_writer_ledger_has_facts(w);

    if (!why->code && due) {
        if (commit_all(w, why))
            td_writer_note_failure(w, why);
        note_bytes(w);
    }
}

void *td_writer_thread(void *arg)
{
    struct td_writer *w = arg;
    struct td_error why = {0};
    struct td_writer_item *it, *next;
    int64_t began_ns;
    bool stop = false;

    td_proc_give_way();
    commit_if_due(w, &why); /* how the recording began */
    while (!stop) {
        it = td_writer_queue_take(w, why.code ? 0 : oldest_ns(w), &stop);
        began_ns = td_clock_mono_ns();
        for (; it; it = next) {
            next = it->next;
            if (!why.code && handle_item(w, it, &why)) {
                if (!why.code)
                    td_fail(&why, TD_ENOMEM, "%s: out of memory", w->dir);
                td_writer_note_failure(w, &why);
            }
            note_bytes(w);
            td_writer_queue_done(w, it);
            /* what was taken together is committed together, unless that takes long */
            if (td_clock_mono_ns() - began_ns >= TD_FRAME_COMMIT_NS / 2) {
                commit_if_due(w, &why);
                began_ns = td_clock_mono_ns();
            }
        }
        if (!stop)
            commit_if_due(w, &why);
    }
    return NULL;
}

int td_writer_drain(struct td_writer *w, struct td_error *err)
{
    struct emit_ctx ctx = {w, err};
    int rc = td_redactor_finish(w->redactor, emit_wire, &ctx);

    return rc ? rc : commit_all(w, err);
}
