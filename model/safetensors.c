/* safetensors.c - read .safetensors files and checkpoint folders in place; nothing in a header is believed unchecked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/json.h"

#define MAX_INDEX_BYTES (100u << 20)

struct shard {
    char *path;
    const unsigned char *map;  /* whole file, read-only */
    size_t size;
    bool mapped;               /* false: the caller's memory */
};

/* Invariant: tensors sorted by name once open has succeeded; every data pointer lies inside a shard's map. */
struct td_safetensors {
    struct shard *shards;
    size_t n_shards;
    struct td_st_tensor *tensors;
    size_t n, capacity;
};

/* ---- files ----------------------------------------------------------------------------------- */

static int map_file(const char *path, struct shard *out, struct td_error *err)
{
    const void *data;
    int rc = td_fs_map(path, &data, &out->size, err);

    if (rc)
        return rc;
    out->map = data;
    out->mapped = data != NULL;
    out->path = strdup(path);
    return out->path ? TD_OK : td_fail(err, TD_ENOMEM, "out of memory");
}

/* ---- header ---------------------------------------------------------------------------------- */

/* A JSON number that is an integer in [0, 2^53]: what cJSON's double holds exactly. */
static bool whole_number(const cJSON *j, int64_t *out)
{
    double v;

    if (!cJSON_IsNumber(j))
        return false;
    v = cJSON_GetNumberValue(j);
    if (!(v >= 0 && v <= 0x1p53) || v != floor(v))
        return false;
    *out = (int64_t)v;
    return true;
}

/* ggml-style and other later dtypes have no size here: their bytes are taken from the offsets alone. */
static int read_shape(const cJSON *entry, struct td_st_tensor *t, struct td_error *err)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape"), *d;

    if (!cJSON_IsArray(shape))
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": no shape", t->name);
    if (cJSON_GetArraySize(shape) > TD_ST_MAX_DIMS)
        return td_fail(err, TD_ELIMIT, "tensor \"%s\": %d dimensions, at most %d are supported", t->name,
                       cJSON_GetArraySize(shape), TD_ST_MAX_DIMS);
    cJSON_ArrayForEach(d, shape) {
        if (!whole_number(d, &t->shape[t->ndim]))
            return td_fail(err, TD_ECORRUPT, "tensor \"%s\": dimension %d of its shape is no whole number", t->name, t->ndim);
        t->ndim++;
    }
    return 0;
}

static int check_size(const struct td_st_tensor *t, struct td_error *err)
{
    size_t want = td_dtype_size(t->dtype);

    if (t->dtype == TD_DT_NONE)
        return 0;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(want, (size_t)t->shape[i], &want))
            return td_fail(err, TD_ECORRUPT, "tensor \"%s\": its shape overflows", t->name);
    if (want != t->size_bytes)
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": dtype and shape need %zu bytes, data_offsets give %zu", t->name, want,
                       t->size_bytes);
    return 0;
}

/* Fill *t from one header entry. data_size: bytes that follow the header in the file. */
static int read_entry(const cJSON *entry, const struct shard *sh, size_t data_start, struct td_st_tensor *t, struct td_error *err)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    int64_t begin, end;
    int rc;

    memset(t, 0, sizeof *t);
    t->name = entry->string; /* replaced by a copy of our own in add_tensor */
    t->path = sh->path;
    if (!cJSON_IsObject(entry) || !cJSON_IsString(dtype))
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": no dtype", t->name);
    if (strlen(dtype->valuestring) >= sizeof t->dtype_name)
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": the name of its dtype is too long", t->name);
    strcpy(t->dtype_name, dtype->valuestring);
    t->dtype = td_dtype_parse(t->dtype_name);
    if (td_dtype_block(t->dtype) != 1) /* ggml's names mean nothing in this file format */
        t->dtype = TD_DT_NONE;
    if ((rc = read_shape(entry, t, err)))
        return rc;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole_number(cJSON_GetArrayItem(offsets, 0), &begin)
        || !whole_number(cJSON_GetArrayItem(offsets, 1), &end) || begin > end)
        return td_fail(err, TD_ECORRUPT, "tensor \"%s\": data_offsets are not two whole numbers in order", t->name);
    t->file_offset = data_start + (size_t)begin;
    t->size_bytes = (size_t)(end - begin);
    t->data = t->size_bytes ? sh->map + t->file_offset : NULL; /* checked against the file in check_layout */
    return check_size(t, err);
}

static int add_tensor(struct td_safetensors *st, const struct td_st_tensor *t, struct td_error *err)
{
    if (st->n == TD_ST_MAX_TENSORS)
        return td_fail(err, TD_ELIMIT, "more than %d tensors", TD_ST_MAX_TENSORS);
    if (st->n == st->capacity) {
        size_t cap = st->capacity ? st->capacity * 2 : 64;
        struct td_st_tensor *grown = realloc(st->tensors, cap * sizeof *grown);

        if (!grown)
            return td_fail(err, TD_ENOMEM, "out of memory");
        st->tensors = grown;
        st->capacity = cap;
    }
    st->tensors[st->n] = *t;
    st->tensors[st->n].name = strdup(t->name);
    return st->tensors[st->n++].name ? 0 : td_fail(err, TD_ENOMEM, "out of memory");
}

/* ---- layout: the data of a file is covered without gap or overlap ---------------------------- */

static int by_offset(const void *a, const void *b)
{
    const struct td_st_tensor *x = a, *y = b;

    if (x->file_offset != y->file_offset)
        return x->file_offset < y->file_offset ? -1 : 1;
    return x->size_bytes < y->size_bytes ? -1 : x->size_bytes > y->size_bytes;
}

static int check_layout(struct td_st_tensor *t, size_t n, size_t data_start, size_t file_size, struct td_error *err)
{
    size_t at = data_start, need = data_start;

    if (n)
        qsort(t, n, sizeof *t, by_offset);
    for (size_t i = 0; i < n; i++)
        if (t[i].file_offset + t[i].size_bytes > need)
            need = t[i].file_offset + t[i].size_bytes;
    if (need > file_size)
        return td_fail(err, TD_ETRUNCATED,
                       "truncated: %zu bytes are missing (the header describes %zu, the file has "
                       "%zu); fetch it again",
                       need - file_size, need, file_size);
    for (size_t i = 0; i < n; i++) {
        if (t[i].file_offset < at)
            return td_fail(err, TD_ECORRUPT,
                           "tensor \"%s\" overlaps the one before it by %zu bytes", t[i].name,
                           at - t[i].file_offset);
        if (t[i].file_offset > at)
            return td_fail(err, TD_ECORRUPT, "a gap of %zu bytes before tensor \"%s\"", t[i].file_offset - at, t[i].name);
        at += t[i].size_bytes;
    }
    if (at != file_size)
        return td_fail(err, TD_ECORRUPT, "%zu bytes after the last tensor that no tensor owns", file_size - at);
    return 0;
}

static int read_header(struct td_safetensors *st, const struct shard *sh, struct td_error *err)
{
    uint64_t len = 0;
    size_t first = st->n;
    cJSON *root, *entry;
    int rc = 0;

    if (sh->size < 8)
        return td_fail(err, TD_ETRUNCATED, "truncated: %zu bytes, a safetensors file has at least 8; fetch it again", sh->size);
    for (int i = 7; i >= 0; i--)
        len = len << 8 | sh->map[i];
    if (len > TD_ST_MAX_HEADER)
        return td_fail(err, TD_ELIMIT,
                       "header of %llu bytes, at most %u; is this a safetensors file?",
                       (unsigned long long)len, TD_ST_MAX_HEADER);
    if (len > sh->size - 8)
        return td_fail(err, TD_ETRUNCATED, "truncated: %zu bytes are missing (in the header); fetch it again",
                       (size_t)len - (sh->size - 8));
    if (td_json_room((const char *)sh->map + 8, (size_t)len, err))
        return TD_ENOMEM;
    root = cJSON_ParseWithLength((const char *)sh->map + 8, (size_t)len);
    if (!cJSON_IsObject(root)) {
        cJSON_Delete(root);
        return td_fail(err, TD_ECORRUPT, "its header is not a JSON object; is this a safetensors file?");
    }
    cJSON_ArrayForEach(entry, root) {
        struct td_st_tensor t;

        if (!strcmp(entry->string, "__metadata__"))
            continue;
        if ((rc = read_entry(entry, sh, 8 + (size_t)len, &t, err)) || (rc = add_tensor(st, &t, err)))
            break;
    }
    cJSON_Delete(root);
    return rc ? rc : check_layout(st->tensors ? st->tensors + first : NULL, st->n - first, 8 + (size_t)len, sh->size, err);
}

/* ---- a folder -------------------------------------------------------------------------------- */

static int add_shard(struct td_safetensors *st, struct td_error *err)
{
    struct shard *grown;

    if (st->n_shards == TD_ST_MAX_SHARDS)
        return td_fail(err, TD_ELIMIT, "more than %d shards", TD_ST_MAX_SHARDS);
    grown = realloc(st->shards, (st->n_shards + 1) * sizeof *grown);
    if (!grown)
        return td_fail(err, TD_ENOMEM, "out of memory");
    st->shards = grown;
    memset(&grown[st->n_shards++], 0, sizeof *grown);
    return 0;
}

static int read_shard(struct td_safetensors *st, struct td_error *err)
{
    const struct shard *sh = &st->shards[st->n_shards - 1];
    int rc = read_header(st, sh, err);

    if (rc)
        td_fail_at(err, "%s", sh->path);
    return rc;
}

static int add_file(struct td_safetensors *st, const char *path, struct td_error *err)
{
    int rc = add_shard(st, err);

    return rc || (rc = map_file(path, &st->shards[st->n_shards - 1], err)) ? rc : read_shard(st, err);
}

static int add_memory(struct td_safetensors *st, const void *data, size_t n, const char *name, struct td_error *err)
{
    int rc = add_shard(st, err);

    if (rc)
        return rc;
    st->shards[0] = (struct shard){.path = strdup(name), .map = data, .size = n};
    return st->shards[0].path ? read_shard(st, err) : td_fail(err, TD_ENOMEM, "out of memory");
}

static char *join(const char *folder, const char *file)
{
    char *out = NULL;

    return asprintf(&out, "%s/%s", folder, file) < 0 ? NULL : out;
}

static bool has_shard(const struct td_safetensors *st, const char *path)
{
    for (size_t i = 0; i < st->n_shards; i++)
        if (!strcmp(st->shards[i].path, path))
            return true;
    return false;
}

static int add_shards(struct td_safetensors *st, const char *folder, const char *index_path, struct td_error *err)
{
    struct td_buf text = TD_BUF_INIT(MAX_INDEX_BYTES);
    int rc = td_fs_read_regular(index_path, MAX_INDEX_BYTES, &text, err);
    cJSON *root = NULL, *map, *e;

    if (!rc)
        rc = td_json_room(td_buf_str(&text), text.len, err);
    if (!rc)
        root = cJSON_Parse(td_buf_str(&text));
    map = cJSON_GetObjectItemCaseSensitive(root, "weight_map");

    if (!rc && !cJSON_IsObject(map))
        rc = td_fail(err, TD_ECORRUPT, "%s: no weight_map", index_path);
    cJSON_ArrayForEach(e, map) {
        char *path;

        if (rc)
            break;
        if (!cJSON_IsString(e) || strchr(e->valuestring, '/') || !*e->valuestring) {
            rc = td_fail(err, TD_ECORRUPT, "%s: the shard of \"%s\" is not a file name", index_path, e->string);
            break;
        }
        if (!(path = join(folder, e->valuestring)))
            rc = td_fail(err, TD_ENOMEM, "out of memory");
        else if (!has_shard(st, path))
            rc = add_file(st, path, err);
        free(path);
    }
    cJSON_Delete(root);
    td_buf_release(&text);
    return rc;
}

static int add_folder(struct td_safetensors *st, const char *folder, struct td_error *err)
{
    char *single = join(folder, "model.safetensors"), *index = join(folder, "model.safetensors.index.json");
    int rc;

    if (!single || !index)
        rc = td_fail(err, TD_ENOMEM, "out of memory");
    else if (!access(index, F_OK))
        rc = add_shards(st, folder, index, err);
    else if (!access(single, F_OK))
        rc = add_file(st, single, err);
    else
        rc = td_fail(err, TD_ENOTFOUND,
                     "%s: neither model.safetensors nor model.safetensors.index.json; is this a "
                     "checkpoint folder?",
                     folder);
    free(single);
    free(index);
    return rc;
}

/* ---- the interface --------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_st_tensor *)a)->name, ((const struct td_st_tensor *)b)->name);
}

static int sort(struct td_safetensors *st, struct td_error *err)
{
    if (st->n)
        qsort(st->tensors, st->n, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < st->n; i++)
        if (!strcmp(st->tensors[i - 1].name, st->tensors[i].name))
            return td_fail(err, TD_ECORRUPT, "%s: two tensors are named \"%s\"", st->tensors[i].path, st->tensors[i].name);
    return 0;
}

/* Open a file or a folder; or n bytes of memory, if data is not NULL. */
static int open_any(const char *path, const void *data, size_t n, struct td_safetensors **out, struct td_error *err)
{
    struct td_error local = {0};
    struct td_safetensors *st = calloc(1, sizeof *st);
    struct stat sb;
    int rc;

    *out = NULL;
    if (!err)
        err = &local; /* the helpers read the code back from it */
    if (!st)
        return td_fail(err, TD_ENOMEM, "out of memory");
    if (data)
        rc = add_memory(st, data, n, path, err);
    else if (stat(path, &sb))
        rc = td_fail(err, errno == ENOENT ? TD_ENOTFOUND : TD_EIO, "%s: cannot open: %s", path, strerror(errno));
    else
        rc = S_ISDIR(sb.st_mode) ? add_folder(st, path, err) : add_file(st, path, err);
    if (rc || (rc = sort(st, err))) {
        td_safetensors_close(st);
        return rc;
    }
    *out = st;
    return 0;
}

int td_safetensors_open(const char *path, struct td_safetensors **out, struct td_error *err)
{
    return open_any(path, NULL, 0, out, err);
}

int td_safetensors_memory(const void *data, size_t n, const char *name, struct td_safetensors **out, struct td_error *err)
{
    return open_any(name, data, n, out, err);
}

void td_safetensors_close(struct td_safetensors *st)
{
    if (!st)
        return;
    for (size_t i = 0; i < st->n; i++)
        free((char *)st->tensors[i].name);
    for (size_t i = 0; i < st->n_shards; i++) {
        if (st->shards[i].mapped)
            munmap((void *)st->shards[i].map, st->shards[i].size);
        free(st->shards[i].path);
    }
    free(st->tensors);
    free(st->shards);
    free(st);
}

size_t td_safetensors_count(const struct td_safetensors *st)
{
    return st->n;
}

const struct td_st_tensor *td_safetensors_at(const struct td_safetensors *st, size_t i)
{
    return &st->tensors[i];
}

const struct td_st_tensor *td_safetensors_find(const struct td_safetensors *st, const char *name)
{
    struct td_st_tensor key = {.name = name};

    return st->n ? bsearch(&key, st->tensors, st->n, sizeof key, by_name) : NULL;
}

static void shape_text(char *buf, size_t size, const int64_t *shape, int ndim)
{
    size_t at = 0;

    buf[0] = '\0';
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
}

int td_safetensors_require(const struct td_safetensors *st, const char *name, enum td_dtype dtype, int64_t d0, int64_t d1,
                           const struct td_st_tensor **out, struct td_error *err)
{
    const struct td_st_tensor *t = td_safetensors_find(st, name);
    const int64_t want[2] = {d0, d1};
    const int ndim = d1 < 0 ? 1 : 2;
    char expected[64], found[200];

    *out = t;
    if (!t)
        return td_fail(err, TD_ENOTFOUND, "tensor \"%s\" is missing", name);
    if (t->dtype == dtype && t->ndim == ndim && t->shape[0] == d0 && (ndim == 1 || t->shape[1] == d1))
        return 0;
    shape_text(expected, sizeof expected, want, ndim);
    shape_text(found, sizeof found, t->shape, t->ndim);
    return td_fail(err, TD_EINVAL, "tensor \"%s\": expected %s [%s], found %s [%s]", name,
                   td_dtype_name(dtype), expected, t->dtype_name, found);
}
