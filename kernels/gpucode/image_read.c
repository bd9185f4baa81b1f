/* image_read.c - what kind of file it is, and which containers and entries lie in it; headers only.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/image_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpucode/cubin.h"
#include "kernels/gpucode/hsaco.h"
#include "kernels/gpucode/ptx.h"

#define WANTED                                                                                     \
    "give a shared library or program with CUDA or HIP kernels, a fat binary (nvcc -fatbin), a "   \
    "cubin, or an AMD code object"

/* ---- adding ---------------------------------------------------------------------------------- */

/* Room for one more of an array. */
static void *grow_array(void *array, int n, int *cap, size_t size)
{
    int wanted = *cap ? *cap * 2 : 16;
    void *grown = n < *cap ? array : realloc(array, (size_t)wanted * size);

    if (grown && n >= *cap)
        *cap = wanted;
    return grown;
}

static int add_container(struct td_gpu_image *img, const uint8_t *data, size_t n, struct td_error *err)
{
    struct td_gpu_slice *grown;

    if (img->n_containers == TD_GPU_MAX_CONTAINERS)
        return td_fail(err, TD_ELIMIT, "more than %d containers of GPU code", TD_GPU_MAX_CONTAINERS);
    if (!(grown = grow_array(img->containers, img->n_containers, &img->cap_containers, sizeof *grown)))
        return td_fail(err, TD_ENOMEM, "out of memory");
    img->containers = grown;
    grown[img->n_containers++] = (struct td_gpu_slice){data, n};
    return TD_OK;
}

/* An entry of the container added last. */
static struct td_gpu_part *add_part(struct td_gpu_image *img, enum td_gpu_code code,
                                    const struct td_fatbin_entry *stored, struct td_error *err)
{
    static const char *const packings[] = {"raw", "LZ4", "zstd", "unknown"};
    struct td_gpu_part *p;

    if (img->n_parts == TD_GPU_MAX_ENTRIES) {
        td_fail(err, TD_ELIMIT, "more than %d programs of GPU code", TD_GPU_MAX_ENTRIES);
        return NULL;
    }
    if (!(p = grow_array(img->parts, img->n_parts, &img->cap_parts, sizeof *p))) {
        td_fail(err, TD_ENOMEM, "out of memory");
        return NULL;
    }
    img->parts = p;
    p += img->n_parts++;
    *p = (struct td_gpu_part){.stored = *stored,
                              .e = {.container = img->n_containers - 1,
                                    .code = code,
                                    .sm = stored->sm,
                                    .variant = stored->variant,
                                    .packing = packings[stored->packing],
                                    .stored_bytes = stored->payload_bytes,
                                    .bytes = stored->bytes}};
    if (code != TD_GPU_CODE_HSACO)
        snprintf(p->e.arch, sizeof p->e.arch, "%s_%d%.1s",
                 code == TD_GPU_CODE_PTX ? "compute" : "sm", stored->sm,
                 stored->variant ? &stored->variant : "");
    return p;
}

/* ---- NVIDIA ---------------------------------------------------------------------------------- */

static int read_container(struct td_gpu_image *img, const struct td_fatbin_container *c, struct td_error *err)
{
    struct td_fatbin_entry e;
    size_t at = 0;
    int rc = add_container(img, c->data, c->n, err);

    while (!rc && (rc = td_fatbin_entry_next(c, &at, &e, err)) > 0)
        rc = add_part(img,
                      e.kind == 1   ? TD_GPU_CODE_PTX
                      : e.kind == 2 ? TD_GPU_CODE_CUBIN
                                    : TD_GPU_CODE_OTHER,
                      &e, err)
                 ? 0
                 : err->code;
    return rc;
}

static int read_fatbin(struct td_gpu_image *img, const uint8_t *data, size_t n, struct td_error *err)
{
    struct td_fatbin_container c;
    size_t at = 0;
    int rc;

    while ((rc = td_fatbin_next(data, n, &at, &c, err)) > 0)
        if ((rc = read_container(img, &c, err)))
            return td_fail_at(err, "container %d", img->n_containers - 1);
    return rc;
}

static int read_cubin(struct td_gpu_image *img, const struct td_elf *elf, struct td_error *err)
{
    struct td_cubin_facts facts;
    int rc = td_cubin_facts_read(elf, &facts, err);
    struct td_fatbin_entry whole = {.kind = 2,
                                    .sm = facts.sm,
                                    .variant = facts.variant,
                                    .payload = img->data,
                                    .payload_bytes = img->n,
                                    .bytes = img->n};

    if (rc || (rc = add_container(img, img->data, img->n, err)))
        return rc;
    return add_part(img, TD_GPU_CODE_CUBIN, &whole, err) ? TD_OK : err->code;
}

/* ---- AMD ------------------------------------------------------------------------------------- */

static int add_object(struct td_gpu_image *img, const uint8_t *data, size_t n, const char *arch, struct td_error *err)
{
    struct td_fatbin_entry whole = {.payload = data, .payload_bytes = n, .bytes = n};
    struct td_gpu_part *p = add_part(img, TD_GPU_CODE_HSACO, &whole, err);

    if (p)
        snprintf(p->e.arch, sizeof p->e.arch, "%s", arch);
    return p ? TD_OK : err->code;
}

static int read_bundle(struct td_gpu_image *img, const struct td_hsaco_bundle *b, struct td_error *err)
{
    uint64_t i;
    int rc = add_container(img, b->data, b->n, err);

    for (i = 0; !rc && i < td_hsaco_entry_count(b); i++) {
        struct td_hsaco_entry e;

        if ((rc = td_hsaco_entry_at(b, i, &e, err)) > 0)
            rc = add_object(img, e.data, e.n, e.arch, err);
    }
    return rc;
}

static int read_bundles(struct td_gpu_image *img, const uint8_t *data, size_t n, struct td_error *err)
{
    struct td_hsaco_bundle b;
    size_t at = 0;
    int rc;

    while ((rc = td_hsaco_bundle_next(data, n, &at, &b, err)) > 0)
        if ((rc = read_bundle(img, &b, err)))
            return td_fail_at(err, "bundle %d", img->n_containers - 1);
    return rc;
}

/* What it was made for stands in its metadata, together with the kernels: they are few, and are
 * read again when they are asked for. */
static int read_object(struct td_gpu_image *img, const struct td_elf *elf, struct td_error *err)
{
    struct td_gpu_kernel_list list = {0};
    char arch[TD_HSACO_ARCH];
    int rc = td_hsaco_kernels(elf, &list, arch, err);

    td_gpu_kernel_list_release(&list);
    if (rc || (rc = add_container(img, img->data, img->n, err)))
        return rc;
    return add_object(img, img->data, img->n, arch, err);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static int read_host(struct td_gpu_image *img, const struct td_elf *elf, struct td_error *err)
{
    static const struct {
        const char *section;
        int (*read)(struct td_gpu_image *, const uint8_t *, size_t, struct td_error *);
    } kinds[] = {{".nv_fatbin", read_fatbin}, {".hip_fatbin", read_bundles}};
    struct td_elf_section s;
    size_t i;
    int rc, found = 0;

    for (i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if ((rc = td_elf_section_find(elf, kinds[i].section, &s, err)) > 0 && s.data) {
            found++;
            rc = kinds[i].read(img, s.data, (size_t)s.size, err);
        }
        if (rc < 0)
            return rc;
    }
    if (found)
        return TD_OK;
    if (td_elf_section_find(elf, "__nv_relfatbin", &s, err) > 0)
        return td_fail(err, TD_EUNSUPPORTED, "its GPU code was compiled with -rdc=true and is not linked yet; link it with nvcc");
    return td_fail(err, TD_EINVAL, "a host library or program without GPU code (no section .nv_fatbin or .hip_fatbin); " WANTED);
}

static int read_elf(struct td_gpu_image *img, struct td_error *err)
{
    struct td_elf elf;
    int rc = td_elf_open(&elf, img->data, img->n, err);

    if (rc)
        return rc;
    img->what = elf.machine == TD_ELF_CUDA     ? "cubin"
                : elf.machine == TD_ELF_AMDGPU ? "AMD code object"
                : elf.type == TD_ELF_REL       ? "host object"
                                               : "host library";
    return elf.machine == TD_ELF_CUDA     ? read_cubin(img, &elf, err)
           : elf.machine == TD_ELF_AMDGPU ? read_object(img, &elf, err)
                                          : read_host(img, &elf, err);
}

static int refuse_file(const struct td_gpu_image *img, struct td_error *err)
{
    static const struct { const char *magic, *what;
    } kinds[] = {{"PK\3\4", "a zip archive or Python wheel; unpack it and name the library inside"},
                 {"!<arch>", "an archive of objects; link it, or name one object"},
                 {"!<thin>", "an archive of objects; link it, or name one object"},
                 {"\x1f\x8b", "packed with gzip; unpack it"},
                 {"MZ", "a Windows library; only ELF ones are read"},
                 {"\xcf\xfa\xed\xfe", "a Mac library; only ELF ones are read"},
                 {"BC\xc0\xde", "LLVM bitcode; compile it"}};
    size_t i;

    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (img->n >= strlen(kinds[i].magic) && !memcmp(img->data, kinds[i].magic, strlen(kinds[i].magic)))
            return td_fail(err, TD_EINVAL, "%s", kinds[i].what);
    if (td_ptx_is(img->data, img->n))
        return td_fail(err, TD_EINVAL, "PTX text; make a fat binary of it: nvcc -fatbin FILE.ptx");
    return td_fail(err, TD_EINVAL, "no GPU code; " WANTED);
}

int td_gpu_image_read(struct td_gpu_image *img, struct td_error *err)
{
    if (td_elf_is(img->data, img->n))
        return read_elf(img, err);
    if (td_fatbin_is(img->data, img->n)) {
        img->what = "fat binary";
        return read_fatbin(img, img->data, img->n, err);
    }
    if (td_hsaco_is_bundle(img->data, img->n) || (img->n >= 4 && !memcmp(img->data, "CCOB", 4))) {
        img->what = "bundle of AMD code";
        return read_bundles(img, img->data, img->n, err);
    }
    return refuse_file(img, err);
}
