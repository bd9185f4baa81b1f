/* manifest.c - manifest.json.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/manifest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/out_of_memory.h"

const char *const td_file_names[TD_FILE_COUNT] = {
    "wire.zst", "exchanges.jsonl.zst", "steps.jsonl.zst", "ops.jsonl.zst", "ledger.jsonl.zst", "blobs.pack",
};

static const char *const RESERVED[] = {"format", "version", "tool", "tool_version", "id", "state", "failure", "clock", "hash",
    "redaction", "ledger", "files", "repaired", NULL};

void td_manifest_new_id(char out[33])
{
    uint64_t r[2] = {0, 0};

    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r) {
        r[0] = (uint64_t)td_clock_wall_ns();
        r[1] = (uint64_t)td_clock_mono_ns();
    }
    td_hash_hex((struct td_hash){r[0], r[1]}, out);
}

cJSON *td_manifest_new(const char *tool, const char *id)
{
    cJSON *m = cJSON_CreateObject();

    cJSON_AddStringToObject(m, "format", "tapedeck-fixture");
    cJSON_AddNumberToObject(m, "version", TD_FORMAT_VERSION);
    cJSON_AddStringToObject(m, "tool", tool);
    cJSON_AddStringToObject(m, "tool_version", TD_VERSION);
    cJSON_AddStringToObject(m, "id", id);
    cJSON_AddStringToObject(m, "hash", TD_HASH_NAME);
    return m;
}

bool td_manifest_reserved(const char *section)
{
    const char *const *r;

    for (r = RESERVED; *r; r++)
        if (!strcmp(*r, section))
            return true;
    return false;
}

void td_manifest_put_i64(cJSON *obj, const char *key, int64_t v)
{
    char digits[24];

    if (v <= (1LL << 53) && v >= -(1LL << 53)) {
        cJSON_AddNumberToObject(obj, key, (double)v);
    } else {
        snprintf(digits, sizeof digits, "%lld", (long long)v);
        cJSON_AddStringToObject(obj, key, digits);
    }
}

void td_manifest_put_file(cJSON *manifest, int file, const struct td_file_fact *f)
{
    cJSON *files = cJSON_GetObjectItemCaseSensitive(manifest, "files"), *o;
    char hex[TD_HASH_HEX];

    if (!files)
        files = cJSON_AddObjectToObject(manifest, "files");
    cJSON_DeleteItemFromObjectCaseSensitive(files, td_file_names[file]);
    o = cJSON_AddObjectToObject(files, td_file_names[file]);
    td_manifest_put_i64(o, "bytes", (int64_t)f->bytes);
    td_manifest_put_i64(o, "frames", (int64_t)f->frames);
    td_manifest_put_i64(o, "records", (int64_t)f->records);
    td_hash_hex(f->hash, hex);
    cJSON_AddStringToObject(o, TD_HASH_NAME, hex);
}

int td_manifest_get_file(const cJSON *manifest, const char *name, struct td_file_fact *f)
{
    const cJSON *o = td_json_get(td_json_get(manifest, "files"), name);
    int64_t bytes = td_json_get_i64(o, "bytes", -1);

    memset(f, 0, sizeof *f);
    if (!o)
        return TD_ENOTFOUND;
    if (bytes < 0 || td_hash_parse(td_json_get_str(o, TD_HASH_NAME, NULL), &f->hash))
        return TD_ECORRUPT;
    f->bytes = (uint64_t)bytes;
    f->frames = (uint64_t)td_json_get_i64(o, "frames", 0);
    f->records = (uint64_t)td_json_get_i64(o, "records", 0);
    return TD_OK;
}

int td_manifest_check(const cJSON *m, struct td_error *err)
{
    struct td_hash id;
    int64_t version = td_json_get_i64(m, "version", -1);

    if (strcmp(td_json_get_str(m, "format", ""), "tapedeck-fixture"))
        return td_fail(err, TD_ECORRUPT, "no manifest of a fixture: \"format\" is not \"tapedeck-fixture\"");
    if (version < 1)
        return td_fail(err, TD_ECORRUPT, "\"version\" is no positive number");
    if (version > TD_FORMAT_VERSION)
        return td_fail(err, TD_EVERSION, "format version %lld; this tapedeck reads up to %d: use a newer one", (long long)version,
                       TD_FORMAT_VERSION);
    if (td_hash_parse(td_json_get_str(m, "id", NULL), &id))
        return td_fail(err, TD_ECORRUPT, "\"id\" is not 32 hexadecimal digits");
    if (strcmp(td_json_get_str(m, "hash", ""), TD_HASH_NAME))
        return td_fail(err, TD_EVERSION, "hash \"%.40s\" is not known to this version", td_json_get_str(m, "hash", ""));
    return TD_OK;
}

/* Numbers of `of`, and of its members' members. `plan` and `seen` have numbers, the others objects of them. */
static int check_counts(const cJSON *of, const char *section, struct td_error *err)
{
    const cJSON *m, *n;

    cJSON_ArrayForEach(m, of) {
        const bool is_object = cJSON_IsObject(m);

        for (n = is_object ? m->child : m; n; n = is_object ? n->next : NULL) {
            const bool is_number = cJSON_IsNumber(n) || td_json_i64(n, -1) != -1 || td_json_num(n, 0) != 0;

            if (is_number && (td_json_i64(n, -1) < 0 || (cJSON_IsNumber(n) && n->valuedouble != floor(n->valuedouble))))
                return td_fail(err, TD_ECORRUPT, "its manifest is damaged: \"%s.%.60s\" holds no count", section,
                               m->string ? m->string : "");
        }
    }
    return TD_OK;
}

int td_manifest_check_counts(const cJSON *m, struct td_error *err)
{
    static const char *const SECTIONS[] = {"ledger", "files", "plan", "seen"};
    const cJSON *requests = td_json_get(td_json_get(m, "replay"), "requests");
    size_t i;

    for (i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++)
        if (check_counts(td_json_get(m, SECTIONS[i]), SECTIONS[i], err))
            return TD_ECORRUPT;
    return requests && td_json_i64(requests, -1) < 0
               ? td_fail(err, TD_ECORRUPT, "its manifest is damaged: \"replay.requests\" is no count")
               : TD_OK;
}

int td_manifest_save(const char *dir, const cJSON *manifest, struct td_error *err)
{
    struct td_buf b = TD_BUF_INIT(TD_MANIFEST_MAX);
    char path[TD_PATH_MAX];
    struct td_jw w;
    const unsigned lacked = td_out_of_memory_count();
    int rc = td_fs_join(path, sizeof path, dir, TD_MANIFEST_NAME, err);

    td_jw_init(&w, &b, true);
    td_jw_value(&w, NULL, manifest);
    if (!rc && b.failed && td_out_of_memory_count() != lacked)
        rc = td_fail(err, TD_ENOMEM, "%s: out of memory for its bytes", path);
    if (!rc && b.failed)
        rc = td_fail(err, TD_ELIMIT, "%s: larger than the maximum of %zu bytes", path, TD_MANIFEST_MAX);
    if (!rc)
        rc = td_fs_write_atomic(path, td_buf_str(&b), b.len, err);
    td_buf_release(&b);
    return rc;
}
