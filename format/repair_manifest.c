/* repair_manifest.c - the manifest of a fixture that is repaired: as it is, or rebuilt from the ledger.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/json.h"
#include "format/frames.h"
#include "format/repair_state.h"

static void merge_member(cJSON *m, const char *section, const char *key, const cJSON *value)
{
    cJSON *s = cJSON_GetObjectItemCaseSensitive(m, section);

    if (!s)
        s = cJSON_AddObjectToObject(m, section);
    cJSON_DeleteItemFromObjectCaseSensitive(s, key);
    cJSON_AddItemToObject(s, key, cJSON_Duplicate(value, true));
}

/* Merge one line of the ledger into the manifest: its beginning, a fact or a count. */
static void merge_ledger_line(struct repair *r, const cJSON *line)
{
    const cJSON *begin = td_json_get(line, "begin"), *value = td_json_get(line, "value"), *item;
    const char *section = td_json_get_str(line, "section", NULL), *key = td_json_get_str(line, "key", NULL);
    const char *count = td_json_get_str(line, "count", NULL);
    cJSON *c;

    cJSON_ArrayForEach(item, begin)
        if (item->string && !cJSON_GetObjectItemCaseSensitive(r->manifest, item->string))
            cJSON_AddItemToObject(r->manifest, item->string, cJSON_Duplicate(item, true));
    if (section && key && value && !td_manifest_reserved(section))
        merge_member(r->manifest, section, key, value);
    if (count) {
        c = cJSON_CreateObject();
        td_manifest_put_i64(c, "n", td_json_get_i64(line, "n", 0));
        td_manifest_put_i64(c, "bytes", td_json_get_i64(line, "bytes", 0));
        merge_member(r->manifest, "ledger", count, c);
        cJSON_Delete(c);
    }
}

static int manifest_from_ledger(struct repair *r, struct td_error *err)
{
    struct td_frames f;
    char path[TD_PATH_MAX], id[33];
    int rc = repair_path(r, TD_FILE_LEDGER, path, err);

    r->manifest = cJSON_CreateObject();
    if (!rc)
        rc = td_frames_open(&f, path, TD_FILE_LEDGER + 1, err);
    if (rc)
        return rc;
    while (td_frames_next(&f, NULL) == 1) {
        char *p = f.raw.data, *end = p + f.raw.len, *nl;

        for (; p < end && (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
            cJSON *line = td_json_parse(p, (size_t)(nl - p), NULL);

            merge_ledger_line(r, line);
            cJSON_Delete(line);
        }
    }
    td_frames_close(&f);
    if (!td_json_get(r->manifest, "id")) { /* the recorder was killed before its first commit */
        cJSON_Delete(r->manifest);
        td_manifest_new_id(id);
        r->manifest = td_manifest_new("repair", id);
        repair_report(r, "%s: nothing is known about how this recording began; it gets a new id",
                      r->dir);
    }
    cJSON_AddStringToObject(r->manifest, "state", "interrupted");
    return TD_OK;
}

int repair_load_manifest(struct repair *r, struct td_error *err)
{
    struct td_error why = {0};
    char path[TD_PATH_MAX];
    int rc = td_fs_join(path, sizeof path, r->dir, TD_MANIFEST_NAME, err);

    if (rc)
        return rc;
    rc = repair_keep_aside(r, path, TD_FILE_COUNT, err);
    if (rc < 0)
        return rc;
    if (td_fs_exists(path)) {
        r->manifest = td_json_load_member(path, TD_MANIFEST_MAX, &why);
        rc = r->manifest ? td_manifest_check(r->manifest, &why) : why.code;
        if (rc == TD_EVERSION)
            return td_fail(err, rc, "%s: %s", path, why.msg);
        if (!rc) {
            r->had_manifest = true;
            return TD_OK;
        }
        repair_report(r, "%s: %s; rebuilt from the ledger", path, why.msg);
        cJSON_Delete(r->manifest);
        r->manifest = NULL;
    } else {
        repair_report(r, "%s: missing; rebuilt from the ledger", path);
    }
    return manifest_from_ledger(r, err);
}

