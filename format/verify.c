/* verify.c - check every byte of a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/verify.h"

#include <stdio.h>
#include <string.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/fixture_check.h"
#include "format/fixture_folder.h"
#include "format/judgement.h"
#include "format/own_files.h"
#include "format/pack.h"

#define MAX_PROBLEMS_PER_FILE 100

struct check {
    const char *dir;
    td_verify_report *report;
    void *ctx;
    struct td_verify_sums *sums;
    struct td_fixture *fx;
    int judgements; /* that were reported */
};

static void report_problem(struct check *c, int code, const char *file, const char *sentence)
{
    char here[TD_PATH_MAX + 8];
    int n = td_fs_join(here, TD_PATH_MAX, c->dir, file, NULL) ? 0 : (int)strlen(here);

    if (n) /* the reader's sentence begins with the file: name it once */
        n = strncmp(sentence, strcat(here, ": "), (size_t)n + 2) ? 0 : n + 2;
    c->sums->problems++;
    c->report(c->ctx, code, file, sentence + n);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void check_file(struct check *c, int file)
{
    const char *name = td_file_names[file];
    struct td_error err = {0};
    struct td_file_fact want;
    uint64_t size;
    int rc = td_manifest_get_file(td_fixture_manifest(c->fx), name, &want);

    if (rc) {
        report_problem(c, TD_ECORRUPT, name,
                       rc == TD_ENOTFOUND ? "the manifest does not list it"
                                          : "the manifest's entry is damaged");
        return;
    }
    rc = td_file_check(c->dir, name, &want, true, &size, &err);
    if (rc)
        report_problem(c, rc, name, err.msg);
    c->sums->files += !rc || size;
    c->sums->bytes += (int64_t)size;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

static void need_blob(struct check *c, const struct td_op *op, const struct td_tensor_rec *t)
{
    char said[200], hex[TD_HASH_HEX];

    if (!t->stored || td_fixture_has_blob(c->fx, t->blob))
        return;
    td_hash_hex(t->blob, hex);
    snprintf(said, sizeof said, "op %lld needs blob %s (\"%s\"), which is not there", (long long)op->op, hex, t->role);
    report_problem(c, TD_ENOTFOUND, td_file_names[TD_FILE_PACK], said);
}

/* Read one record of any kind. 1, 0 or the cursor's error. */
static int next_record(struct check *c, struct td_cursor *cur, enum td_stream_kind kind, struct td_error *err)
{
    struct td_exchange x = {0};
    struct td_step s = {0};
    struct td_op op = {0};
    struct td_error judgement = {0};
    struct td_wire w;
    cJSON *line;
    int rc, i;

    switch (kind) {
    case TD_STREAM_WIRE:
        return td_cursor_wire(cur, &w, err);
    case TD_STREAM_EXCHANGES:
        rc = td_cursor_exchange(cur, &x, err);
        td_exchange_release(&x);
        return rc;
    case TD_STREAM_STEPS:
        rc = td_cursor_step(cur, &s, err);
        td_step_release(&s);
        return rc;
    case TD_STREAM_OPS:
        rc = td_cursor_op(cur, &op, err);
        if (rc == 1 && td_judgement_check(&op, &judgement) && c->judgements++ < MAX_PROBLEMS_PER_FILE)
            report_problem(c, TD_ECORRUPT, td_file_names[TD_FILE_OPS], judgement.msg);
        for (i = 0; rc == 1 && i < op.n_in; i++)
            need_blob(c, &op, &op.in[i]);
        if (rc == 1 && op.has_out)
            need_blob(c, &op, &op.out);
        td_op_release(&op);
        return rc;
    default:
        rc = td_cursor_json(cur, &line, err);
        cJSON_Delete(line);
        return rc;
    }
}

static void check_stream(struct check *c, enum td_stream_kind kind)
{
    const char *name = td_file_names[kind];
    struct td_error err = {0};
    struct td_file_fact want = {0};
    struct td_cursor *cur;
    int64_t n = 0;
    int rc, said = 0;
    char text[160];

    if (td_cursor_open(c->fx, kind, &cur, &err))
        return; /* check_file named it */
    for (;;) {
        td_error_clear(&err);
        rc = next_record(c, cur, kind, &err);
        if (!rc)
            break;
        n += rc == 1;
        if (rc < 0 && said++ < MAX_PROBLEMS_PER_FILE)
            report_problem(c, rc, name, err.msg);
        if (rc < 0 && rc != TD_ECORRUPT && rc != TD_ETRUNCATED && rc != TD_ELIMIT)
            break;
    }
    c->sums->records += n;
    if (!td_manifest_get_file(td_fixture_manifest(c->fx), name, &want)) {
        if (__builtin_add_overflow(c->sums->frames, want.frames, &c->sums->frames))
            c->sums->frames = INT64_MAX; /* a manifest may say anything */
        if ((uint64_t)n != want.records) {
            snprintf(text, sizeof text, "%lld records, the manifest says %llu", (long long)n, (unsigned long long)want.records);
            report_problem(c, TD_ECORRUPT, name, text);
        }
    }
    td_cursor_close(cur);
}

/* ---- blobs ------------------------------------------------------------------------------------------------------------ */

/* Bytes of all blobs of an index, as a count of MiB. */
static int64_t index_mib(const struct td_pack_index *ix)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < ix->cap; i++)
        sum += ix->slot[i].at != UINT64_MAX ? ix->slot[i].raw_len >> 10 : 0;
    return (int64_t)(sum >> 10);
}

/* Weights of zeros are real, but not so many: a few kilobytes would keep us for hours. */
static bool stands_for_too_much(const struct td_pack *pk)
{
    const uint64_t mib = (uint64_t)index_mib(&pk->index);

    return mib > TD_PACK_SUM_MIB && mib > pk->src.size / (1 << 20) * TD_PACK_SUM_TIMES;
}

/* A blob that stands there twice is not unpacked again: its hash would be the same. Nor is one that is not as
 * long as the index says. */
static int check_blob(struct check *c, const struct td_pack *pk, const struct td_pack_head *h, uint64_t at, struct td_pack_checked *far)
{
    const struct td_pack_entry *e = td_pack_index_find(&pk->index, h->hash);
    const bool unlike = e && (e->at != at || e->raw_len != h->raw_len);
    struct td_error err = {0};
    int rc = unlike ? TD_OK : td_pack_check(pk, at, h, far, &err);

    if (!rc && (!e || unlike))
        rc = td_fail(&err, TD_ECORRUPT, "the index does not agree with the frame at offset %llu", (unsigned long long)at);
    if (rc)
        report_problem(c, rc, td_file_names[TD_FILE_PACK], err.msg);
    return rc;
}

static void check_pack(struct check *c)
{
    const char *name = td_file_names[TD_FILE_PACK];
    struct td_error err = {0};
    struct td_pack_head h;
    struct td_pack pk;
    struct td_pack_checked far = {0};
    uint64_t at = 0, frame_at;
    char path[TD_PATH_MAX];
    int rc, said = 0;

    if (td_fs_join(path, sizeof path, c->dir, name, &err) || td_pack_open(&pk, path, &err))
        return;
    if (!pk.indexed)
        report_problem(c, TD_ETRUNCATED, name,
                       "no valid index at its end; \"fixture repair\" writes one");
    if (stands_for_too_much(&pk)) {
        td_fail(&err, TD_ELIMIT, "its blobs stand for %lld MiB, more than %d times what they take on the disk; they are not read",
                (long long)index_mib(&pk.index), TD_PACK_SUM_TIMES);
        report_problem(c, TD_ELIMIT, name, err.msg);
        td_pack_close(&pk);
        return;
    }
    td_progress_start(&far.progress, "checking blobs, MiB", index_mib(&pk.index));
    for (;;) {
        td_error_clear(&err);
        rc = td_pack_walk(&pk, &at, &h, &frame_at, NULL, &err);
        if (!rc)
            break;
        if (rc == 1 && h.encoding != TD_PACK_INDEX) {
            c->sums->blobs++;
            if (said < MAX_PROBLEMS_PER_FILE && check_blob(c, &pk, &h, frame_at, &far))
                said++;
        } else if (rc < 0 && said++ < MAX_PROBLEMS_PER_FILE) {
            report_problem(c, rc, name, err.msg);
        }
        if (rc < 0 && rc != TD_ECORRUPT && rc != TD_ETRUNCATED)
            break;
    }
    td_progress_done(&far.progress);
    td_pack_close(&pk);
}

/* Check that the code of GPU kernels is there, unless extract left it out. */
static void check_images(struct check *c)
{
    const cJSON *m = td_fixture_manifest(c->fx), *image;

    cJSON_ArrayForEach(image, td_json_get(td_json_get(m, "tap"), "images")) {
        struct td_hash hash;

        if (td_hash_parse(td_json_get_str(image, "blob", ""), &hash) ||
            (!td_fixture_has_blob(c->fx, hash) && !td_json_get(m, "extract")))
            report_problem(c, TD_ECORRUPT, TD_MANIFEST_NAME,
                           "tap.images: the code of a GPU kernel is not there");
    }
}

int td_fixture_verify(const char *dir, td_verify_report *report, void *ctx, struct td_verify_sums *sums, struct td_error *err)
{
    char folder[TD_PATH_MAX];
    struct check c = {folder, report, ctx, sums, NULL, 0};
    struct td_error why = {0};
    int i, rc = td_fixture_folder(dir, folder, err);

    memset(sums, 0, sizeof *sums);
    if (!rc && td_fs_is_dir(dir))
        rc = td_own_folder(dir, TD_ENOTFOUND, err);
    if (rc)
        return rc;
    if (td_fixture_open(dir, &c.fx, &why)) {
        report_problem(&c, why.code, TD_MANIFEST_NAME, why.msg);
        return TD_OK;
    }
    if (!strcmp(td_json_get_str(td_fixture_manifest(c.fx), "state", ""), "failed"))
        report_problem(
            &c, TD_ECORRUPT, TD_MANIFEST_NAME,
            td_json_get_str(td_fixture_manifest(c.fx), "failure", "the recording failed"));
    td_error_clear(&why);
    if (td_manifest_check_counts(td_fixture_manifest(c.fx), &why))
        report_problem(&c, TD_ECORRUPT, TD_MANIFEST_NAME, why.msg);
    td_fixture_state_words(td_fixture_manifest(c.fx), sums->state);
    for (i = 0; i < TD_FILE_COUNT; i++)
        check_file(&c, i);
    for (i = 0; i < TD_FILE_PACK; i++)
        check_stream(&c, (enum td_stream_kind)i);
    check_pack(&c);
    check_images(&c);
    td_fixture_close(c.fx);
    return TD_OK;
}
