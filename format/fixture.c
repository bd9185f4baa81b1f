/* fixture.c - read a fixture: its manifest, its streams, its blobs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "common/memory.h"
#include "format/bytes.h"
#include "format/exchange_scan.h"
#include "format/fixture_folder.h"
#include "format/frames.h"
#include "common/lfs.h"
#include "format/manifest.h"
#include "format/own_files.h"
#include "format/pack.h"

#define WIRE_HEAD 20
#define MAX_ITEMS ((size_t)1 << 26) /* records that td_fixture_exchanges() and the like load */

struct td_fixture {
    char name[TD_PATH_MAX];    /* as the user named it: a folder, or a pack */
    char dir[TD_PATH_MAX];     /* where its files are */
    cJSON *manifest;
    pthread_mutex_t lock;      /* guards the opening of the pack */
    struct td_pack pack;
    bool pack_tried;
    struct td_error pack_why;  /* why there is none */
};

/* ---- open ----------------------------------------------------------------------------------------------------------- */

int td_fixture_open(const char *dir, struct td_fixture **out, struct td_error *err)
{
    struct td_fixture *fx = calloc(1, sizeof *fx);
    char path[TD_PATH_MAX];
    int rc;

    *out = NULL;
    if (!fx)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", dir);
    pthread_mutex_init(&fx->lock, NULL);
    fx->pack.src.fd = -1;
    strncpy(fx->name, dir, sizeof fx->name - 1);
    rc = td_fixture_folder(dir, fx->dir, err);
    if (!rc)
        rc = td_fs_join(path, sizeof path, fx->dir, TD_MANIFEST_NAME, err);
    if (rc)
        goto fail;
    if (!td_fs_exists(path)) {
        rc = td_fs_is_dir(dir) ? td_own_folder(dir, TD_ENOTFOUND, err) : TD_OK;
        if (!rc)
            rc = td_fail(err, TD_ENOTFOUND, "%s: no %s; if a recording ended badly, \"{fixture} repair %s\" rebuilds it", dir,
                     TD_MANIFEST_NAME, dir);
        goto fail;
    }
    if (td_member_is_lfs_pointer(path)) {
        rc = td_fail(err, TD_ENOTFOUND, "%s: " TD_LFS_POINTER, path);
        goto fail;
    }
    fx->manifest = td_json_load_member(path, TD_MANIFEST_MAX, err);
    rc = fx->manifest ? td_manifest_check(fx->manifest, err) : err ? err->code : TD_ECORRUPT;
    if (rc && fx->manifest)
        td_fail_at(err, "%s", path);
    if (rc)
        goto fail;
    *out = fx;
    return TD_OK;
fail:
    td_fixture_close(fx);
    return rc;
}

void td_fixture_close(struct td_fixture *fx)
{
    if (!fx)
        return;
    td_pack_close(&fx->pack);
    cJSON_Delete(fx->manifest);
    pthread_mutex_destroy(&fx->lock);
    free(fx);
}

const cJSON *td_fixture_manifest(const struct td_fixture *fx)
{
    return fx->manifest;
}

const char *td_fixture_id(const struct td_fixture *fx)
{
    return td_json_get_str(fx->manifest, "id", "");
}

const char *td_fixture_dir(const struct td_fixture *fx)
{
    return fx->name;
}

const char *td_fixture_files_dir(const struct td_fixture *fx)
{
    return fx->dir;
}

int64_t td_fixture_ledger(const struct td_fixture *fx, const char *name)
{
    return td_json_get_i64(td_json_get(td_json_get(fx->manifest, "ledger"), name), "n", 0);
}

/* ---- cursors -------------------------------------------------------------------------------------------------------- */

struct td_cursor {
    struct td_frames frames;
    enum td_stream_kind kind;
    size_t at;                 /* in frames.raw */
    size_t exchange_at;        /* where the last exchange began there */
    bool done;
    int64_t bad_records, lines;
    struct td_buf scratch;     /* of td_exchange_scan() */
};

int td_cursor_open_dir(const char *dir, enum td_stream_kind kind, struct td_cursor **out, struct td_error *err)
{
    struct td_cursor *c;
    char path[TD_PATH_MAX];
    int rc;

    *out = NULL;
    if ((unsigned)kind > TD_STREAM_LEDGER)
        return td_fail(err, TD_EINVAL, "%s: no stream of kind %d", dir, (int)kind);
    rc = td_fs_join(path, sizeof path, dir, td_file_names[kind], err);
    if (rc)
        return rc;
    c = calloc(1, sizeof *c);
    if (!c)
        return td_fail(err, TD_ENOMEM, "%s: out of memory", path);
    c->kind = kind;
    td_buf_init(&c->scratch, TD_JSON_MAX_BYTES);
    rc = td_frames_open(&c->frames, path, (uint16_t)(kind + 1), err);
    if (rc) {
        td_cursor_close(c);
        return rc;
    }
    *out = c;
    return TD_OK;
}

int td_cursor_open(struct td_fixture *fx, enum td_stream_kind kind, struct td_cursor **out, struct td_error *err)
{
    return td_cursor_open_dir(fx->dir, kind, out, err);
}

void td_cursor_close(struct td_cursor *c)
{
    if (!c)
        return;
    td_frames_close(&c->frames);
    td_buf_release(&c->scratch);
    free(c);
}

int64_t td_cursor_lines(const struct td_cursor *c)
{
    return c->lines;
}

int64_t td_cursor_bad_frames(const struct td_cursor *c)
{
    return c->frames.bad + c->bad_records + c->frames.torn;
}

/* Make sure that frames.raw has bytes at `at`. 1, 0 or an error, as td_frames_next(). */
static int read_frame(struct td_cursor *c, struct td_error *err)
{
    int rc;

    while (c->at >= c->frames.raw.len) {
        if (c->done)
            return 0;
        c->at = 0;
        td_buf_clear(&c->frames.raw);
        rc = td_frames_next(&c->frames, err);
        if (rc == 1)
            continue;
        c->at = 0;
        td_buf_clear(&c->frames.raw);
        /* the end, or an error that stops reading */
        c->done = rc != TD_ECORRUPT && rc != TD_ETRUNCATED;
        return rc;
    }
    return 1;
}

/* A record does not parse though the frame's checksums hold: go on at `next`. */
static int bad_record(struct td_cursor *c, size_t next, int rc, struct td_error *err)
{
    td_fail_at(err, "%s: frame %llu, byte %zu", c->frames.src.name, (unsigned long long)c->frames.head.number, c->at);
    c->at = next;
    c->bad_records++;
    return rc;
}

int td_cursor_wire(struct td_cursor *c, struct td_wire *out, struct td_error *err)
{
    const uint8_t *p;
    size_t left, len;
    int rc = read_frame(c, err);

    if (rc != 1)
        return rc;
    p = (const uint8_t *)c->frames.raw.data + c->at;
    left = c->frames.raw.len - c->at;
    len = left >= WIRE_HEAD ? td_get32(p + 16) : 0;
    if (c->kind != TD_STREAM_WIRE || left < WIRE_HEAD || len > left - WIRE_HEAD || p[12] > TD_WIRE_NOTE) {
        rc = td_fail(err, TD_ECORRUPT, "no wire record here");
        return bad_record(c, c->frames.raw.len, rc, err);
    }
    *out = (struct td_wire){(int64_t)td_get64(p), td_get32(p + 8), (enum td_wire_dir)p[12], p + WIRE_HEAD, len, (p[13] & 1) != 0};
    c->at += WIRE_HEAD + len;
    return 1;
}

/* Find the next line, from c->at. *next: where the one after it begins. */
static int find_line(struct td_cursor *c, size_t *n, size_t *next, struct td_error *err)
{
    const char *p, *nl;
    int rc = read_frame(c, err);

    if (rc != 1)
        return rc;
    if (c->kind == TD_STREAM_WIRE)
        return td_fail(err, TD_EINVAL, "%s: wire records are no JSON", c->frames.src.name);
    p = c->frames.raw.data + c->at;
    nl = memchr(p, '\n', c->frames.raw.len - c->at);
    *n = nl ? (size_t)(nl - p) : c->frames.raw.len - c->at;
    *next = c->at + *n + (nl != NULL);
    c->lines++;
    return 1;
}

int td_cursor_skip(struct td_cursor *c, struct td_error *err)
{
    size_t n, next = 0;
    int rc = find_line(c, &n, &next, err);

    if (rc == 1)
        c->at = next;
    return rc;
}

/* Parse the line of n bytes that was found. *start: its offset, for error messages. */
static int parse_line(struct td_cursor *c, size_t n, size_t next, cJSON **out, size_t *start, struct td_error *err)
{
    struct td_error why = {0};

    *out = td_json_parse(c->frames.raw.data + c->at, n, &why);
    if (!*out) {
        td_fail(err, why.code, "%s", why.msg);
        return bad_record(c, next, why.code, err);
    }
    *start = c->at;
    c->at = next;
    return 1;
}

/* Parse the next line. */
static int next_line(struct td_cursor *c, cJSON **out, size_t *start, struct td_error *err)
{
    size_t n = 0, next = 0;
    int rc = find_line(c, &n, &next, err);

    *out = NULL;
    return rc == 1 ? parse_line(c, n, next, out, start, err) : rc;
}

int td_cursor_json(struct td_cursor *c, cJSON **out, struct td_error *err)
{
    size_t start;

    return next_line(c, out, &start, err);
}

/* A record was read with rc: release its line; an error gets the place in front. */
static int finish_record(struct td_cursor *c, cJSON *line, size_t start, int rc,
                         struct td_error *err)
{
    size_t next = c->at;

    cJSON_Delete(line);
    if (!rc)
        return 1;
    c->at = start;
    return bad_record(c, next, rc, err);
}

int td_cursor_exchange(struct td_cursor *c, struct td_exchange *out, struct td_error *err)
{
    size_t start = 0, n = 0, next = 0;
    cJSON *line;
    int rc;

    td_exchange_release(out);
    rc = find_line(c, &n, &next, err);
    if (rc != 1)
        return rc;
    c->exchange_at = c->at;
    if (td_exchange_scan(c->frames.raw.data + c->at, n, &c->scratch, out)) {
        c->at = next;
        return 1;
    }
    rc = parse_line(c, n, next, &line, &start, err);
    return rc == 1 ? finish_record(c, line, start, td_exchange_read(line, out, err), err) : rc;
}

struct td_place td_cursor_place(const struct td_cursor *c)
{
    return (struct td_place){c->frames.head_at, c->exchange_at};
}

int td_cursor_go(struct td_cursor *c, struct td_place place, struct td_error *err)
{
    int rc = 1;

    if (!c->frames.raw.len || c->frames.head_at != place.frame) {
        td_buf_clear(&c->frames.raw);
        c->frames.at = place.frame;
        c->frames.in_damage = true; /* its number follows no other */
        c->done = false;
        rc = td_frames_next(&c->frames, err);
    }
    if (rc == 1 && place.at <= c->frames.raw.len) {
        c->at = place.at;
        return TD_OK;
    }
    td_buf_clear(&c->frames.raw);
    c->at = 0;
    return rc < 0 ? rc : td_fail(err, TD_ECORRUPT, "%s: frame at offset %llu: it changed while it was read", c->frames.src.name,
                                 (unsigned long long)place.frame);
}

int td_cursor_step(struct td_cursor *c, struct td_step *out, struct td_error *err)
{
    size_t start = 0;
    cJSON *line;
    int rc;

    td_step_release(out);
    rc = next_line(c, &line, &start, err);
    return rc == 1 ? finish_record(c, line, start, td_step_read(line, out, err), err) : rc;
}

int td_cursor_op(struct td_cursor *c, struct td_op *out, struct td_error *err)
{
    size_t start = 0;
    cJSON *line;
    int rc;

    td_op_release(out);
    rc = next_line(c, &line, &start, err);
    return rc == 1 ? finish_record(c, line, start, td_op_take(line, out, err), err) : rc;
}

/* ---- all of a stream ------------------------------------------------------------------------------------------------- */

static int next_record_of_kind(struct td_cursor *c, void *slot, struct td_error *err)
{
    switch (c->kind) {
    case TD_STREAM_EXCHANGES: return td_cursor_exchange(c, slot, err);
    case TD_STREAM_STEPS: return td_cursor_step(c, slot, err);
    default: return td_cursor_op(c, slot, err);
    }
}

static int read_all_records(struct td_fixture *fx, enum td_stream_kind kind, size_t size,
                            void **out, size_t *n, size_t *bad, struct td_error *err)
{
    struct td_cursor *c;
    size_t cap = 0, have = 0;
    char *all = NULL, *grown;
    int rc = td_cursor_open(fx, kind, &c, err);

    *out = NULL;
    *n = 0;
    if (rc)
        return rc;
    for (;;) {
        struct td_error why = {0};

        if (have == cap) {
            cap = cap ? cap * 2 : 64;
            if ((rc = td_memory_room(cap * size, fx->dir, err)))
                break;
            grown = cap <= MAX_ITEMS ? realloc(all, cap * size) : NULL;
            if (!grown) {
                rc = td_fail(err, TD_ELIMIT, "%s: too many records for memory", fx->dir);
                break;
            }
            all = grown;
        }
        memset(all + have * size, 0, size);
        rc = next_record_of_kind(c, all + have * size, &why);
        if (rc == 1)
            have++;
        else if (rc != TD_ECORRUPT && rc != TD_ETRUNCATED && rc != TD_ELIMIT) {
            if (rc)
                td_fail(err, rc, "%s", why.msg);
            break;
        }
    }
    if (bad)
        *bad = (size_t)td_cursor_bad_frames(c);
    td_cursor_close(c);
    *out = all; /* on failure too: the caller frees through the typed function */
    *n = have;
    return rc;
}

int td_fixture_exchanges(struct td_fixture *fx, struct td_exchange **out, size_t *n, size_t *bad, struct td_error *err)
{
    void *all;
    int rc = read_all_records(fx, TD_STREAM_EXCHANGES, sizeof **out, &all, n, bad, err);

    *out = all;
    if (rc) {
        td_exchanges_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return rc;
}

int td_fixture_ops(struct td_fixture *fx, struct td_op **out, size_t *n, size_t *bad, struct td_error *err)
{
    void *all;
    int rc = read_all_records(fx, TD_STREAM_OPS, sizeof **out, &all, n, bad, err);

    *out = all;
    if (rc) {
        td_ops_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return rc;
}

int td_fixture_steps(struct td_fixture *fx, struct td_step **out, size_t *n, size_t *bad, struct td_error *err)
{
    void *all;
    int rc = read_all_records(fx, TD_STREAM_STEPS, sizeof **out, &all, n, bad, err);

    *out = all;
    if (rc) {
        td_steps_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return rc;
}

void td_exchanges_free(struct td_exchange *x, size_t n)
{
    size_t i;

    for (i = 0; x && i < n; i++)
        td_exchange_release(&x[i]);
    free(x);
}

void td_ops_free(struct td_op *x, size_t n)
{
    size_t i;

    for (i = 0; x && i < n; i++)
        td_op_release(&x[i]);
    free(x);
}

void td_steps_free(struct td_step *x, size_t n)
{
    size_t i;

    for (i = 0; x && i < n; i++)
        td_step_release(&x[i]);
    free(x);
}

/* ---- blobs ---------------------------------------------------------------------------------------------------------- */

static int open_pack_once(struct td_fixture *fx, struct td_error *err)
{
    char path[TD_PATH_MAX];
    int rc;

    pthread_mutex_lock(&fx->lock);
    if (!fx->pack_tried) {
        fx->pack_tried = true;
        if (!td_fs_join(path, sizeof path, fx->dir, td_file_names[TD_FILE_PACK], &fx->pack_why))
            td_pack_open(&fx->pack, path, &fx->pack_why);
    }
    rc = fx->pack_why.code;
    pthread_mutex_unlock(&fx->lock);
    return rc ? td_fail(err, rc, "%s", fx->pack_why.msg) : TD_OK;
}

int td_fixture_blob(struct td_fixture *fx, struct td_hash hash, uint64_t max, void **data, size_t *n, struct td_error *err)
{
    const struct td_pack_entry *e;
    char hex[TD_HASH_HEX];
    int rc = open_pack_once(fx, err);

    *data = NULL;
    *n = 0;
    if (rc)
        return rc;
    e = td_pack_index_find(&fx->pack.index, hash);
    td_hash_hex(hash, hex);
    if (!e)
        return td_fail(err, TD_ENOTFOUND, "%s: no blob %s", fx->dir, hex);
    return td_pack_read(&fx->pack, e->at, &hash, max, data, n, err);
}

bool td_fixture_has_blob(const struct td_fixture *fx, struct td_hash hash)
{
    struct td_fixture *own = (struct td_fixture *)(uintptr_t)fx; /* opens the pack on first use, under its lock */

    return !open_pack_once(own, NULL) && td_pack_index_find(&fx->pack.index, hash);
}
