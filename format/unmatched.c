/* unmatched.c - which rules of redaction matched nothing in a finished fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/unmatched.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/fs.h"
#include "common/json.h"
#include "format/manifest.h"

static bool is_unmatched(const cJSON *list, const char *kind, const char *name)
{
    const cJSON *rule;
    size_t n = strlen(kind);

    cJSON_ArrayForEach(rule, list)
        if (cJSON_IsString(rule) && !strncmp(rule->valuestring, kind, n) && rule->valuestring[n] == ' ' &&
            !strcasecmp(rule->valuestring + n + 1, name))
            return true;
    return false;
}

void td_redaction_unmatched(const char *dir, const char *kind, const char *const *names, struct td_buf *out)
{
    struct td_buf text = TD_BUF_INIT(TD_MANIFEST_MAX);
    char path[TD_PATH_MAX];
    cJSON *manifest = NULL;

    if (!td_fs_join(path, sizeof path, dir, TD_MANIFEST_NAME, NULL) && !td_fs_read_member(path, TD_MANIFEST_MAX, &text, NULL))
        manifest = td_json_parse(text.data, text.len, NULL);
    for (; names && *names; names++)
        if (is_unmatched(td_json_get(td_json_get(manifest, "redaction"), "unmatched"), kind, *names))
            td_buf_addf(out, "%s%s %s", out->len ? ", " : "", kind, *names);
    cJSON_Delete(manifest);
    td_buf_release(&text);
}
