/* hsaco.c - AMD's GPU code: bundles, code objects, their metadata.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/hsaco.h"

#include <stdio.h>
#include <string.h>

#include "kernels/gpucode/msgpack.h"

#define MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define MAGIC_LEN 24
#define ENTRY 24                   /* bytes before an entry's id */
#define METADATA 32                /* NT_AMDGPU_METADATA */

/* ---- bundles --------------------------------------------------------------------------------- */

bool td_hsaco_is_bundle(const void *data, size_t n)
{
    return n >= MAGIC_LEN && !memcmp(data, MAGIC, MAGIC_LEN);
}

uint64_t td_hsaco_entry_count(const struct td_hsaco_bundle *b)
{
    return td_le64(b->data + MAGIC_LEN);
}

/* Entry i of what begins at b, whose end is not known yet. */
static int entry_fields(const uint8_t *b, size_t n, uint64_t i, uint64_t *offset, uint64_t *size,
                        const char **id, uint64_t *id_len)
{
    uint64_t at = MAGIC_LEN + 8, j;

    for (j = 0;; j++) {
        if (n - at < ENTRY || td_le64(b + at + 16) > n - at - ENTRY)
            return -1;
        *id_len = td_le64(b + at + 16);
        if (j == i)
            break;
        at += ENTRY + *id_len;
    }
    *offset = td_le64(b + at);
    *size = td_le64(b + at + 8);
    *id = (const char *)b + at + ENTRY;
    return *offset > n || *size > n - *offset ? -1 : 0;
}

static int measure_bundle(const uint8_t *b, size_t n, size_t *len, struct td_error *err)
{
    uint64_t count, i, offset, size, id_len;
    const char *id;

    if (n < MAGIC_LEN + 8)
        return td_fail(err, TD_ETRUNCATED, "a bundle of AMD code ends inside its header; was the file copied whole?");
    count = td_le64(b + MAGIC_LEN);
    if (!count || count > TD_HSACO_MAX_ENTRIES)
        return td_fail(err, TD_ECORRUPT,
                       "a bundle of AMD code claims %llu entries, at most %d are read",
                       (unsigned long long)count, TD_HSACO_MAX_ENTRIES);
    for (*len = 0, i = 0; i < count; i++) {
        if (entry_fields(b, n, i, &offset, &size, &id, &id_len))
            return td_fail(err, TD_ETRUNCATED,
                           "entry %llu of a bundle of AMD code ends after its %zu bytes; was the "
                           "file copied whole?",
                           (unsigned long long)i, n);
        if (offset + size > *len)
            *len = (size_t)(offset + size);
        if ((size_t)(id + id_len - (const char *)b) > *len)
            *len = (size_t)(id + id_len - (const char *)b);
    }
    return TD_OK;
}

int td_hsaco_bundle_next(const uint8_t *data, size_t n, size_t *at, struct td_hsaco_bundle *out, struct td_error *err)
{
    int rc;

    while (*at < n && !data[*at])
        ++*at;
    if (*at >= n)
        return 0;
    if (n - *at >= 4 && !memcmp(data + *at, "CCOB", 4))
        return td_fail(err, TD_EUNSUPPORTED,
                       "its AMD code is in compressed bundles, which are not read yet; build it "
                       "with --no-offload-compress, or unpack it "
                       "with clang-offload-bundler --unbundle");
    if (!td_hsaco_is_bundle(data + *at, n - *at))
        return td_fail(err, TD_ECORRUPT, "at byte %zu of the AMD code stands no bundle (%s)", *at, MAGIC);
    out->data = data + *at;
    if ((rc = measure_bundle(out->data, n - *at, &out->n, err)))
        return rc;
    *at += out->n;
    return 1;
}

/* "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-" -> "gfx90a:xnack-"; false: too long. */
static bool copy_arch(char out[TD_HSACO_ARCH], const char *id, size_t len)
{
    const char *p = len ? memmem(id, len, "--", 2) : NULL;
    size_t n = p ? len - (size_t)(p + 2 - id) : 0;

    if (n >= TD_HSACO_ARCH)
        return false;
    snprintf(out, TD_HSACO_ARCH, "%.*s", (int)n, p ? p + 2 : "");
    return true;
}

int td_hsaco_entry_at(const struct td_hsaco_bundle *b, uint64_t i, struct td_hsaco_entry *out, struct td_error *err)
{
    uint64_t offset, size, id_len;
    const char *id;

    if (i >= td_hsaco_entry_count(b) ||
        entry_fields(b->data, b->n, i, &offset, &size, &id, &id_len) ||
        !copy_arch(out->arch, id, id_len))
        return td_fail(err, TD_ECORRUPT, "entry %llu of a bundle of AMD code is broken", (unsigned long long)i);
    out->data = b->data + offset;
    out->n = (size_t)size;
    return size && (id_len < 4 || memcmp(id, "host", 4)) ? 1 : 0;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* Of a map of numbers and strings: the number of that key, 0 if it has none. m is at the map's first key, and is not moved. */
static uint64_t field_number(struct td_msgpack m, uint64_t pairs, const char *key)
{
    struct td_msgpack_value v;

    return td_msgpack_find(&m, pairs, key, &v) == 1 && v.kind == TD_MP_UINT ? v.u : 0;
}

static uint32_t read_small(uint64_t u)
{
    return u > UINT32_MAX ? UINT32_MAX : (uint32_t)u;
}

/* .args: an array of maps. Hidden ones come after the program's own. */
static int read_args(struct td_gpu_kernel *k, struct td_msgpack m, uint64_t count, struct td_error *err)
{
    uint64_t i;
    size_t n = 0;
    int rc = td_gpu_kernel_set_params(k, count > TD_GPU_MAX_PARAMS ? TD_GPU_MAX_PARAMS + 1 : (size_t)count, true, err);

    if (rc)
        return rc;
    for (i = 0; i < count; i++) {
        struct td_msgpack whole = m, seek;
        struct td_msgpack_value map, kind;

        if (!td_msgpack_skip(&m) || !td_msgpack_next(&whole, &map) || map.kind != TD_MP_MAP)
            return td_fail(err, TD_ECORRUPT, "kernel %.200s: its arguments are no list of maps", k->symbol);
        seek = whole;
        if (td_msgpack_find(&seek, map.u, ".value_kind", &kind) != 1 || kind.kind != TD_MP_STR)
            return td_fail(err, TD_ECORRUPT, "kernel %.200s: argument %llu has no .value_kind", k->symbol, (unsigned long long)i);
        if (kind.len > 7 && !memcmp(kind.str, "hidden_", 7))
            continue;
        ((struct td_gpu_param *)k->params)[n] =
            (struct td_gpu_param){read_small(field_number(whole, map.u, ".offset")),
                                  read_small(field_number(whole, map.u, ".size"))};
        ((bool *)k->pointer)[n++] = td_msgpack_is(&kind, "global_buffer");
    }
    k->n_params = (int)n;
    return TD_OK;
}

static int check_args(const struct td_gpu_kernel *k, struct td_error *err)
{
    int i;

    for (i = 0; i < k->n_params; i++)
        if (!k->params[i].size || k->params[i].offset > k->param_bytes ||
            k->params[i].size > k->param_bytes - k->params[i].offset)
            return td_fail(
                err, TD_ECORRUPT,
                "kernel %.200s: argument %d (offset %u, %u bytes) is outside its block of %u",
                k->symbol, i, k->params[i].offset, k->params[i].size, k->param_bytes);
    return TD_OK;
}

static void read_block(struct td_gpu_kernel *k, struct td_msgpack m, uint64_t pairs)
{
    struct td_msgpack_value v;
    int i;

    if (td_msgpack_find(&m, pairs, ".reqd_workgroup_size", &v) != 1 || v.kind != TD_MP_ARRAY || v.u != 3)
        return;
    for (i = 0; i < 3 && td_msgpack_next(&m, &v); i++)
        k->block[i] = read_small(v.u);
}

/* One map of amdhsa.kernels; m is at its first key. */
static int read_kernel(struct td_msgpack m, uint64_t pairs, struct td_gpu_kernel_list *out, struct td_error *err)
{
    struct td_msgpack seek = m;
    struct td_msgpack_value v;
    struct td_gpu_kernel *k;
    int rc;

    if (td_msgpack_find(&seek, pairs, ".name", &v) != 1 || v.kind != TD_MP_STR || !v.len || v.len > TD_ELF_MAX_NAME)
        return td_fail(err, TD_ECORRUPT, "a kernel in the AMD metadata has no name");
    if (!(k = td_gpu_kernel_add(out, v.str, v.len, err)))
        return err->code;
    k->param_bytes = read_small(field_number(m, pairs, ".kernarg_segment_size"));
    k->shared_bytes = read_small(field_number(m, pairs, ".group_segment_fixed_size"));
    k->max_threads = read_small(field_number(m, pairs, ".max_flat_workgroup_size"));
    k->registers = read_small(field_number(m, pairs, ".vgpr_count"));
    read_block(k, m, pairs);
    seek = m;
    rc = td_msgpack_find(&seek, pairs, ".args", &v);
    if (rc < 0 || (rc == 1 && v.kind != TD_MP_ARRAY))
        return td_fail(err, TD_ECORRUPT, "kernel %.200s: its AMD metadata is broken", k->symbol);
    rc = read_args(k, seek, rc ? v.u : 0, err);
    return rc ? rc : check_args(k, err);
}

int td_hsaco_metadata(const void *note, size_t n, struct td_gpu_kernel_list *out, char arch[TD_HSACO_ARCH], struct td_error *err)
{
    struct td_msgpack m = {note, (const uint8_t *)note + n}, seek;
    struct td_msgpack_value root, v;
    struct td_error local = {0};
    int rc = TD_OK;

    arch[0] = 0;
    err = err ? err : &local;
    if (!td_msgpack_next(&m, &root) || root.kind != TD_MP_MAP)
        return td_fail(err, TD_ECORRUPT, "the AMD metadata is no map");
    seek = m;
    if (td_msgpack_find(&seek, root.u, "amdhsa.target", &v) == 1 && v.kind == TD_MP_STR && !copy_arch(arch, v.str, v.len))
        return td_fail(err, TD_ECORRUPT, "the AMD metadata's target has a name of %u bytes", v.len);
    if (td_msgpack_find(&m, root.u, "amdhsa.kernels", &v) != 1 || v.kind != TD_MP_ARRAY)
        return td_fail(err, TD_ECORRUPT, "the AMD metadata lists no kernels");
    while (!rc && v.u--) {
        struct td_msgpack_value map;

        seek = m;
        if (!td_msgpack_skip(&m) || !td_msgpack_next(&seek, &map) || map.kind != TD_MP_MAP)
            return td_fail(err, TD_ECORRUPT, "the AMD metadata's kernels are no maps");
        rc = read_kernel(seek, map.u, out, err);
    }
    return rc;
}

int td_hsaco_kernels(const struct td_elf *elf, struct td_gpu_kernel_list *out, char arch[TD_HSACO_ARCH], struct td_error *err)
{
    struct td_error local = {0};
    struct td_elf_section s;
    uint32_t i;

    arch[0] = 0;
    err = err ? err : &local;
    for (i = 1; i < elf->n_sections; i++) {
        const uint8_t *note;
        size_t len;

        if (td_elf_section_at(elf, i, &s, err))
            return err->code;
        if (s.type == TD_ELF_NOTE && (note = td_elf_note_find(&s, "AMDGPU", METADATA, &len)))
            return td_hsaco_metadata(note, len, out, arch, err);
    }
    return td_fail(err, TD_EUNSUPPORTED,
                   "an AMD code object without a metadata note (code object version 2?); build it "
                   "with -mcode-object-version=4");
}

/* ---- architectures --------------------------------------------------------------------------- */

bool td_hsaco_runs(const char *arch, const char *device)
{
    size_t n = strcspn(arch, ":");

    if (!n || n != strcspn(device, ":") || memcmp(arch, device, n))
        return false;
    while (arch[n] == ':') {
        const char *feature = arch + n + 1;
        size_t len = strcspn(feature, ":");
        const char *has = device;

        while ((has = strchr(has, ':')) && (strcspn(++has, ":") != len || memcmp(has, feature, len)))
            ;
        if (!has)
            return false;
        n += 1 + len;
    }
    return true;
}
