/* fixture_check.c - are the files of a fixture those that its manifest lists?
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/fixture_check.h"

#include <string.h>

#include "common/fs.h"
#include "common/lfs.h"
#include "format/sink.h"

static int compare_sum(const struct td_source *src, const struct td_file_fact *want,
                       struct td_error *err)
{
    struct td_hash have;
    int rc = td_source_digest(src, &have, err);

    if (rc || td_hash_eq(have, want->hash))
        return rc;
    return td_fail(err, TD_ECORRUPT, "its checksum is not the manifest's");
}

int td_file_check(const char *dir, const char *name, const struct td_file_fact *want, bool sum,
                  uint64_t *size, struct td_error *err)
{
    struct td_error why = {0};
    struct td_source src;
    char path[TD_PATH_MAX];
    int rc;

    if (size)
        *size = 0;
    if (td_fs_join(path, sizeof path, dir, name, &why) || td_source_open(&src, path, &why))
        return why.code == TD_ENOTFOUND
                   ? td_fail(err, TD_ENOTFOUND, "missing, though the manifest lists it")
                   : td_fail(err, why.code, "%s", why.msg);
    if (size)
        *size = src.size;
    if (src.size != want->bytes && td_member_is_lfs_pointer(path))
        rc = td_fail(err, TD_ENOTFOUND, TD_LFS_POINTER);
    else if (src.size != want->bytes)
        rc = td_fail(err, src.size < want->bytes ? TD_ETRUNCATED : TD_ECORRUPT,
                     "%llu bytes, the manifest says %llu%s", (unsigned long long)src.size,
                     (unsigned long long)want->bytes,
                     src.size < want->bytes ? ": truncated" : ": it grew");
    else
        rc = sum ? compare_sum(&src, want, err) : TD_OK;
    td_source_close(&src);
    return rc;
}

int td_fixture_check(const struct td_fixture *fx, unsigned sums, struct td_error *err)
{
    const char *dir = td_fixture_dir(fx);
    struct td_file_fact want;
    struct td_error counts = {0};
    int i, rc;

    if (td_manifest_check_counts(td_fixture_manifest(fx), &counts))
        return td_fail(err, TD_ECORRUPT, "%.110s: %.200s; " TD_NEXT_OF_DAMAGE, dir, counts.msg, dir);
    for (i = 0; i < TD_FILE_COUNT; i++) {
        struct td_error why = {0};

        rc = td_manifest_get_file(td_fixture_manifest(fx), td_file_names[i], &want);
        if (rc == TD_ENOTFOUND)
            continue;
        rc = rc ? td_fail(&why, rc, "the manifest's entry is damaged")
                : td_file_check(td_fixture_files_dir(fx), td_file_names[i], &want, sums >> i & 1,
                                NULL, &why);
        if (rc && !strcmp(why.msg, TD_LFS_POINTER))
            return td_fail(err, rc, "%.300s/%s: " TD_LFS_POINTER, dir, td_file_names[i]);
        if (rc)
            return td_fail(err, rc, "%.110s is damaged: %s: %.160s; " TD_NEXT_OF_DAMAGE, dir,
                           td_file_names[i], why.msg, dir);
    }
    return TD_OK;
}
