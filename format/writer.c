/* writer.c - a recording while it happens: a bounded queue, one thread that redacts, compresses and writes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Callers copy a record into the queue (writer_queue.c). The writer thread (writer_thread.c) does
 * the rest: redaction, frames, blobs, the ledger. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/memory.h"
#include "common/out_of_memory.h"
#include "format/frames.h"
#include "format/manifest.h"
#include "format/writer_ledger.h"
#include "format/writer_queue.h"
#include "format/writer_thread.h"

#define WIRE_SPLIT ((size_t)1 << 20)  /* a longer read or write becomes several records */
#define NOTE_MAX ((size_t)16 << 20)

/* ---- callers -------------------------------------------------------------------------------------------------------- */

int td_writer_wire(struct td_writer *w, const struct td_wire *rec)
{
    size_t at = 0, n = rec->len;
    int rc;

    if (rec->dir == TD_WIRE_NOTE && n > NOTE_MAX)
        return TD_ELIMIT;
    do {
        struct td_wire part = *rec;

        part.data = rec->data ? rec->data + at : NULL;
        part.len = rec->dir != TD_WIRE_NOTE && n - at > WIRE_SPLIT ? WIRE_SPLIT : n - at;
        rc = td_writer_queue_wire(w, &part);
        at += part.len;
    } while (!rc && at < n);
    return rc;
}

/* Once an allocation has failed that may have been overlooked, no line is taken: it may lack a member, and a
 * line that is committed is believed. */
static int push_line(struct td_writer *w, int kind, struct td_buf *line, int rc)
{
    struct td_writer_item *it;

    if (!rc && line->len >= TD_FRAME_MAX_RAW)
        rc = TD_ELIMIT;
    if (!rc && td_out_of_memory_count())
        rc = TD_ENOMEM;
    if (!rc) {
        it = td_writer_item_new(TD_ITEM_LINE, line->data, line->len);
        if (it)
            it->stream = kind;
        rc = td_writer_queue_push(w, it);
    }
    td_buf_release(line);
    return rc;
}

void td_writer_redact_error(struct td_writer *w, struct td_exchange *x)
{
    const char *kind = x->error_kind ? x->error_kind : "";

    if (x->error)
        td_redactor_error(w->redactor, td_redactor_is_from_server(kind, strlen(kind)), x->error);
}

int td_writer_exchange(struct td_writer *w, const struct td_exchange *x)
{
    struct td_buf line = TD_BUF_INIT(TD_FRAME_MAX_RAW);

    return push_line(w, TD_STREAM_EXCHANGES, &line, td_exchange_write(x, &line));
}

int td_writer_step(struct td_writer *w, const struct td_step *s)
{
    struct td_buf line = TD_BUF_INIT(TD_FRAME_MAX_RAW);

    return push_line(w, TD_STREAM_STEPS, &line, td_step_write(s, &line));
}

int td_writer_op(struct td_writer *w, const struct td_op *op)
{
    struct td_buf line = TD_BUF_INIT(TD_FRAME_MAX_RAW);

    return push_line(w, TD_STREAM_OPS, &line, td_op_write(op, &line));
}

bool td_writer_has_blob(struct td_writer *w, struct td_hash hash)
{
    bool has;

    pthread_mutex_lock(&w->lock);
    has = td_pack_index_find(&w->seen, hash) != NULL;
    pthread_mutex_unlock(&w->lock);
    return has;
}

int td_writer_blob(struct td_writer *w, const void *data, size_t n, int elem_bytes, struct td_hash *hash)
{
    struct td_writer_item *it = n <= TD_PACK_MAX_RAW ? td_writer_item_new(TD_ITEM_BLOB, data, n) : NULL;
    struct td_pack_entry e = {.raw_len = n};
    size_t before;
    bool fresh;
    int rc;

    if (!it)
        return n > TD_PACK_MAX_RAW ? TD_ELIMIT : TD_ENOMEM;
    /* The hash is that of the copy: another process may go on writing to `data`. */
    *hash = it->hash = e.hash = td_hash_bytes(it->data, n);
    it->elem_bytes = elem_bytes;
    pthread_mutex_lock(&w->lock);
    before = w->seen.n;
    rc = w->failure.code ? w->failure.code : td_pack_index_add(&w->seen, &e);
    fresh = w->seen.n > before;
    pthread_mutex_unlock(&w->lock);
    if (!rc)
        td_writer_count(w, fresh ? "blobs.stored" : "blobs.deduplicated", 1, (int64_t)n);
    if (!rc && fresh)
        return td_writer_queue_push(w, it);
    free(it);
    return rc;
}

int64_t td_writer_bytes(const struct td_writer *w)
{
    return atomic_load(&w->bytes);
}

/* ---- create --------------------------------------------------------------------------------------------------------- */

static int make_dir(const char *dir, struct td_error *err)
{
    struct dirent *e;
    DIR *d;
    int rc = td_fs_mkdirs(dir, err);

    if (!rc)
        rc = td_fixture_lock_check(dir, err);
    if (rc)
        return rc;
    d = opendir(dir);
    if (!d)
        return td_fail(err, TD_EIO, "%s: cannot read: %s", dir, strerror(errno));
    while ((e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = TD_EEXIST;
    closedir(d);
    return rc ? td_fail(err, rc, "%s: there is something already; name another folder or remove it", dir) : TD_OK;
}

static cJSON *string_array(const char *const *s)
{
    cJSON *a = cJSON_CreateArray();

    for (; s && *s; s++)
        cJSON_AddItemToArray(a, cJSON_CreateString(*s));
    return a;
}

static cJSON *redaction_fact(struct td_writer *w, bool closing)
{
    const struct td_redact_counts *c = td_redactor_counts(w->redactor);
    cJSON *o = cJSON_CreateObject(), *b = cJSON_AddObjectToObject(o, "bytes");

    cJSON_AddItemToObject(o, "headers", string_array(td_redactor_headers(w->redactor)));
    cJSON_AddItemToObject(o, "json_paths", string_array(td_redactor_paths(w->redactor)));
    cJSON_AddBoolToObject(o, "no_text", td_redactor_no_text(w->redactor));
    if (closing)
        cJSON_AddItemToObject(o, "unmatched", td_redactor_unmatched(w->redactor));
    td_manifest_put_i64(b, "headers", c->headers);
    td_manifest_put_i64(b, "urls", c->urls);
    td_manifest_put_i64(b, "json", c->json);
    td_manifest_put_i64(b, "unparsed", c->unparsed);
    td_manifest_put_i64(b, "over_limit", c->over_limit);
    td_manifest_put_i64(b, "values", c->values);
    return o;
}

static cJSON *start_of_manifest(struct td_writer *w, bool closing)
{
    cJSON *m = td_manifest_new(w->tool, w->id), *clock = cJSON_AddObjectToObject(m, "clock");

    td_manifest_put_i64(clock, "wall_ns", w->wall_ns);
    td_manifest_put_i64(clock, "mono_ns", w->mono_ns);
    cJSON_AddItemToObject(m, "redaction", redaction_fact(w, closing));
    return m;
}

static int open_files(struct td_writer *w, struct td_error *err)
{
    int k, rc = td_sink_open(&w->pack, w->dir, td_file_names[TD_FILE_PACK], err);

    for (k = 0; !rc && k < TD_WRITER_STREAMS; k++)
        rc = td_sink_open(&w->stream[k].sink, w->dir, td_file_names[k], err);
    return rc;
}

static void release_writer(struct td_writer *w)
{
    struct td_writer_item *it, *next;
    int i;

    for (i = 0; i < 2; i++)
        for (it = i ? w->bulk.head : w->soon.head; it; it = next) {
            next = it->next;
            free(it);
        }
    for (i = 0; i < TD_WRITER_STREAMS; i++) {
        td_sink_close(&w->stream[i].sink);
        td_buf_release(&w->stream[i].raw);
    }
    td_sink_close(&w->pack);
    td_fixture_lock_leave(&w->folder_lock);
    td_pack_index_release(&w->index);
    td_pack_index_release(&w->seen);
    ZSTD_freeCCtx(w->z);
    td_buf_release(&w->scratch);
    td_redactor_free(w->redactor);
    cJSON_Delete(w->facts);
    td_buf_release(&w->fact_lines);
    for (i = 0; i < w->n_counters; i++)
        free(w->counter[i].name);
    pthread_mutex_destroy(&w->lock);
    pthread_mutex_destroy(&w->stat_lock);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->room);
    pthread_cond_destroy(&w->committed);
    free(w);
}

/* What waits for the disk takes at most a quarter of the memory that there is for all. */
static int64_t default_queue(void)
{
    const int64_t most = (int64_t)256 << 20, quarter = td_memory_max() / 4;

    return quarter < most ? quarter : most;
}

static void init_writer(struct td_writer *w, const struct td_writer_options *opt)
{
    pthread_condattr_t mono;
    int k;

    w->pack.fd = -1;
    for (k = 0; k < TD_WRITER_STREAMS; k++) {
        w->stream[k].sink.fd = -1;
        td_buf_init(&w->stream[k].raw, TD_FRAME_MAX_RAW);
    }
    td_buf_init(&w->scratch, SIZE_MAX / 2);
    td_buf_init(&w->fact_lines, TD_MANIFEST_MAX);
    w->level = opt && opt->level ? opt->level : 3;
    /* activations get as small as with 3, in less time */
    w->blob_level = opt && opt->level ? opt->level : 1;
    w->queue_max = opt && opt->queue_max_bytes ? opt->queue_max_bytes : default_queue();
    strncpy(w->tool, opt && opt->tool ? opt->tool : "tapedeck", sizeof w->tool - 1);
    w->wall_ns = td_clock_wall_ns();
    w->mono_ns = td_clock_mono_ns();
    td_manifest_new_id(w->id);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->stat_lock, NULL);
    pthread_condattr_init(&mono);
    pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
    pthread_cond_init(&w->work, &mono);
    pthread_cond_init(&w->room, NULL);
    pthread_cond_init(&w->committed, NULL);
    pthread_condattr_destroy(&mono);
}

int td_writer_create(const char *dir, const struct td_writer_options *opt, struct td_writer **out, struct td_error *err)
{
    struct td_writer *w = calloc(1, sizeof *w);
    cJSON *m;
    int rc;

    *out = NULL;
    if (!w)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", dir);
    init_writer(w, opt);
    if (strlen(dir) + 32 >= sizeof w->dir)
        rc = td_fail(err, TD_ELIMIT, "%s: path too long", dir);
    else
        rc = td_redactor_new(opt ? opt->redaction : NULL, &w->redactor, err);
    if (rc)
        goto fail;
    strcpy(w->dir, dir);
    w->z = ZSTD_createCCtx();
    w->facts = cJSON_CreateObject();
    if (!w->z || !w->facts) {
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory", dir);
        goto fail;
    }
    m = start_of_manifest(w, false);
    rc = td_writer_ledger_begin(w, m);
    cJSON_Delete(m);
    if (rc) {
        td_fail(err, rc, "%s: %s", dir, td_code_name(rc));
        goto fail;
    }
    if ((rc = make_dir(dir, err)) ||
        (rc = td_fixture_lock_take(&w->folder_lock, dir, w->tool, err)) ||
        (rc = open_files(w, err)))
        goto fail;
    rc = pthread_create(&w->thread, NULL, td_writer_thread, w);
    if (rc) {
        rc = td_fail(err, TD_EIO, "cannot start a thread: %s", strerror(rc));
        goto fail;
    }
    *out = w;
    return TD_OK;
fail:
    td_fixture_lock_release(&w->folder_lock);
    release_writer(w);
    return rc;
}

/* ---- close ------------------------------------------------------------------------------------------------------------ */

static void stop_thread(struct td_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
}

/* A manifest that found no memory is not written: the folder is then that of a writer that was killed. */
static int save_manifest(struct td_writer *w, const char *state, struct td_error *err)
{
    const unsigned failed_before = td_out_of_memory_count();
    cJSON *m = start_of_manifest(w, true), *ledger = cJSON_AddObjectToObject(m, "ledger"), *c, *s;
    struct td_file_fact f = {w->pack.size, w->index.n, w->index.n, td_sink_digest(&w->pack)};
    int i, rc;

    cJSON_AddStringToObject(m, "state", state);
    if (w->failure.code)
        cJSON_AddStringToObject(m, "failure", w->failure.msg);
    c = cJSON_GetObjectItemCaseSensitive(m, "clock");
    td_manifest_put_i64(c, "end_wall_ns", td_clock_wall_ns());
    td_manifest_put_i64(c, "end_mono_ns", td_clock_mono_ns());
    td_writer_ledger_sums(w, ledger);
    td_manifest_put_file(m, TD_FILE_PACK, &f);
    for (i = 0; i < TD_WRITER_STREAMS; i++) {
        f = (struct td_file_fact){w->stream[i].sink.size, w->stream[i].frames, w->stream[i].total,
                                  td_sink_digest(&w->stream[i].sink)};
        td_manifest_put_file(m, i, &f);
    }
    while ((s = cJSON_DetachItemFromArray(w->facts, 0)))
        cJSON_AddItemToObject(m, s->string, s);
    rc = td_out_of_memory_count() != failed_before ? td_out_of_memory_check(w->dir, err)
                                                   : td_manifest_save(w->dir, m, err);
    cJSON_Delete(m);
    return rc;
}

int td_writer_close(struct td_writer *w, const char *state, struct td_error *err)
{
    struct td_error why = {0};
    int k, rc;

    if (!w)
        return TD_OK;
    stop_thread(w);
    if (!w->failure.code)
        td_out_of_memory_check(w->dir, &w->failure);
    if (!w->failure.code) {
        rc = td_writer_drain(w, &why);
        if (!rc)
            rc = td_pack_finish(&w->pack, &w->index, &why);
        if (!rc)
            rc = td_sink_sync(&w->pack, &why);
        for (k = 0; !rc && k < TD_WRITER_STREAMS; k++)
            rc = td_sink_sync(&w->stream[k].sink, &why);
        if (rc && !why.code)
            td_fail(&why, rc, "%s: cannot finish the recording: %s", w->dir, td_code_name(rc));
        w->failure = why;
    }
    td_error_clear(&why);
    rc = save_manifest(w, w->failure.code ? "failed" : state, &why);
    if (w->failure.code)
        rc = td_fail(err, w->failure.code, "%s", w->failure.msg);
    else if (rc)
        td_fail(err, rc, "%s", why.msg);
    td_fixture_lock_release(&w->folder_lock);
    release_writer(w);
    return rc;
}

void td_writer_abandon(struct td_writer *w)
{
    if (!w)
        return;
    stop_thread(w);
    release_writer(w);
}
