/* repair_files.c - repair the files of a fixture: torn tails, bad frames, the index of the pack.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/temp_file.h"
#include "format/frames.h"
#include "format/pack.h"
#include "format/repair_state.h"

/* Cut the file, which is no link, to its first `size` bytes. */
static int cut_file(const char *path, uint64_t size, struct td_error *err)
{
    int fd = td_fs_open_member(path, O_WRONLY, err), rc = TD_OK;

    if (fd < 0)
        return fd;
    if (ftruncate(fd, (off_t)size) || fsync(fd))
        rc = td_fail(err, TD_EIO, "%s: cannot cut: %s", path, strerror(errno));
    close(fd);
    return rc;
}

/* Open a new file under a temporary name in the folder of `path`. tmp: its path. */
static int open_new(const struct repair *r, const char *path, char tmp[TD_PATH_MAX],
                    struct td_sink *to, struct td_error *err)
{
    int rc = td_temp_name(path, tmp, err);

    return rc ? rc : td_sink_open(to, r->dir, strrchr(tmp, '/') + 1, err);
}

/* Close the new file; when all went well it takes the place of `path`, else it is removed. */
static int close_new(struct td_sink *to, const char *tmp, const char *path, int rc,
                     struct td_error *err)
{
    if (!rc)
        rc = td_sink_sync(to, err);
    td_sink_close(to);
    if (!rc)
        return td_temp_rename(tmp, path, err);
    unlink(tmp);
    return rc;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

/* Walk a stream, and copy its good frames to `to` unless NULL. The file's fact gets the counts. */
static int walk_stream(struct repair *r, int file, struct td_frames *f, struct td_sink *to, bool loud, struct td_error *err)
{
    struct td_file_fact *fact = &r->fact[file];
    int rc;

    memset(fact, 0, sizeof *fact);
    for (;;) {
        struct td_error why = {0};

        rc = td_frames_next(f, &why);
        if (!rc)
            return TD_OK;
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED) {
            if (loud)
                repair_report(r, "%s", why.msg);
            continue;
        }
        if (rc < 0)
            return td_fail(err, rc, "%s", why.msg);
        f->head.number = fact->frames;
        if (to && (rc = td_frame_copy(to, &f->head, f->comp.data, err)))
            return rc;
        fact->frames++;
        fact->records += f->head.records;
    }
}

static int rewrite_stream(struct repair *r, int file, const char *path, struct td_error *err)
{
    char tmp[TD_PATH_MAX];
    struct td_frames f;
    struct td_sink to;
    int rc = open_new(r, path, tmp, &to, err);

    if (rc)
        return rc;
    rc = td_frames_open(&f, path, (uint16_t)(file + 1), err);
    if (!rc)
        rc = walk_stream(r, file, &f, &to, false, err);
    td_frames_close(&f);
    return close_new(&to, tmp, path, rc, err);
}

static int create_empty(struct repair *r, int file, struct td_error *err)
{
    struct td_sink s;
    int rc = repair_notes_add(r, file, 1, 0, err);

    if (!rc)
        rc = td_sink_open(&s, r->dir, td_file_names[file], err);
    if (rc)
        return rc;
    rc = td_sink_sync(&s, err);
    td_sink_close(&s);
    if (!rc)
        rc = td_sync_folder(r->dir, err);
    repair_report(r, "%s/%s: missing; an empty one takes its place", r->dir, td_file_names[file]);
    r->touched[file] = true;
    return rc;
}

/* Have a file of ours at the path: an empty one where there is none, or that of others, which is kept
 * aside. Returns 1: the empty one; 0. */
static int have_own(struct repair *r, int file, const char *path, struct td_error *err)
{
    int rc;

    if (td_fs_exists(path)) {
        rc = repair_keep_aside(r, path, file, err);
        if (rc == 1 && (rc = repair_notes_add(r, file, 1, 0, err)) == TD_OK)
            rc = unlink(path) ? td_fail(err, TD_EIO, "%s: cannot remove: %s", path, strerror(errno)) : 1;
        if (rc <= 0)
            return rc;
    }
    rc = create_empty(r, file, err);
    return rc ? rc : 1;
}

int repair_stream(struct repair *r, int file, struct td_error *err)
{
    struct td_frames f;
    char path[TD_PATH_MAX];
    uint64_t good_end, size;
    int64_t bad;
    int rc = repair_path(r, file, path, err);

    if (rc)
        return rc;
    rc = have_own(r, file, path, err);
    if (rc < 0)
        return rc;
    if (rc) {
        memset(&r->fact[file], 0, sizeof r->fact[file]);
        return TD_OK;
    }
    rc = td_frames_open(&f, path, (uint16_t)(file + 1), err);
    if (!rc)
        rc = walk_stream(r, file, &f, NULL, true, err);
    good_end = f.good_end;
    size = f.src.size;
    bad = f.bad;
    td_frames_close(&f);
    if (rc || (!bad && good_end == size))
        return rc;
    r->touched[file] = true;
    rc = repair_notes_add(r, file, bad, bad ? 0 : (int64_t)(size - good_end), err);
    if (rc || bad)
        return rc ? rc : rewrite_stream(r, file, path, err);
    repair_report(r, "%s: %llu bytes of an unfinished frame cut off", path,
                  (unsigned long long)(size - good_end));
    return cut_file(path, good_end, err);
}

/* ---- the pack ---------------------------------------------------------------------------------------------------------- */

/* Copy the good frames (not the old index) into a new pack with an index. */
static int rewrite_pack(struct repair *r, struct td_pack *pk, const char *path, struct td_error *err)
{
    struct td_buf stored = TD_BUF_INIT(SIZE_MAX / 2);
    struct td_pack_index ix = {0};
    struct td_pack_head h;
    struct td_sink to;
    uint64_t at = 0, frame_at;
    char tmp[TD_PATH_MAX];
    int rc = open_new(r, path, tmp, &to, err);

    if (rc)
        return rc;
    while (!rc) {
        rc = td_pack_walk(pk, &at, &h, &frame_at, &stored, NULL);
        if (!rc)
            break;
        if (rc == 1)
            rc = h.encoding == TD_PACK_INDEX || td_pack_index_find(&ix, h.hash)
                     ? TD_OK
                     : td_pack_copy(&to, &ix, &h, stored.data, err);
        else if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
            rc = TD_OK;
        else
            td_fail(err, rc, "%s: cannot be read: %s", path, td_code_name(rc));
    }
    if (!rc)
        rc = td_pack_finish(&to, &ix, err);
    rc = close_new(&to, tmp, path, rc, err);
    td_buf_release(&stored);
    r->fact[TD_FILE_PACK].frames = r->fact[TD_FILE_PACK].records = ix.n;
    td_pack_index_release(&ix);
    return rc;
}

/* Nothing lost but the tail: cut it, append an index. */
static int finish_pack(const char *path, const struct td_pack *pk, struct td_error *err)
{
    struct td_sink s;
    int rc = cut_file(path, pk->good_end, err);

    if (!rc)
        rc = td_sink_reopen(&s, path, pk->good_end, err);
    if (rc)
        return rc;
    rc = td_pack_finish(&s, &pk->index, err);
    if (!rc)
        rc = td_sink_sync(&s, err);
    td_sink_close(&s);
    return rc;
}

int repair_pack(struct repair *r, struct td_error *err)
{
    struct td_buf stored = TD_BUF_INIT(SIZE_MAX / 2);
    struct td_pack_head h;
    struct td_pack pk;
    uint64_t at = 0, frame_at;
    char path[TD_PATH_MAX];
    bool old_index = false;
    int rc = repair_path(r, TD_FILE_PACK, path, err);

    if (rc)
        return rc;
    rc = have_own(r, TD_FILE_PACK, path, err);
    if (rc < 0)
        return rc;
    rc = td_pack_open(&pk, path, err);
    if (rc)
        return rc;
    pk.bad = 0;
    pk.torn = false;
    pk.good_end = 0;
    do {
        struct td_error why = {0};

        rc = td_pack_walk(&pk, &at, &h, &frame_at, &stored, &why);
        old_index |= rc == 1 && h.encoding == TD_PACK_INDEX;
        if (rc == TD_ECORRUPT || rc == TD_ETRUNCATED)
            repair_report(r, "%s", why.msg);
        else if (rc < 0)
            td_fail(err, rc, "%s", why.msg);
    } while (rc == 1 || rc == TD_ECORRUPT || rc == TD_ETRUNCATED);
    td_buf_release(&stored);
    r->fact[TD_FILE_PACK].frames = r->fact[TD_FILE_PACK].records = pk.index.n;
    if (!rc && (pk.bad || !pk.indexed || pk.torn)) {
        r->touched[TD_FILE_PACK] = true;
        repair_report(r, "%s: index rebuilt", path);
        rc = repair_notes_add(r, TD_FILE_PACK, pk.bad,
                              pk.bad ? 0 : (int64_t)(pk.src.size - pk.good_end), err);
        if (!rc)
            rc = pk.bad || old_index ? rewrite_pack(r, &pk, path, err)
                                     : finish_pack(path, &pk, err);
    }
    td_pack_close(&pk);
    return rc;
}

