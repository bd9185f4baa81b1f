/* image.c - a file of GPU code: opened, its entries unpacked and read when they are asked for.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gpucode/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "kernels/gpucode/cubin.h"
#include "kernels/gpucode/hsaco.h"
#include "kernels/gpucode/image_read.h"
#include "kernels/gpucode/ptx.h"

/* ---- opening and closing --------------------------------------------------------------------- */

static int map_file(const char *path, struct td_gpu_image *img, struct td_error *err)
{
    const void *data;
    int rc;

    if (td_fs_is_dir(path))
        return td_fail(err, TD_EINVAL, "%s: a folder; name the library, fat binary, cubin or code object in it", path);
    rc = td_fs_map(path, &data, &img->n, err);
    if (!rc && !data)
        rc = td_fail(err, TD_ETRUNCATED, "%s: empty; was it copied whole?", path);
    img->data = data;
    img->mapped = !rc;
    return rc;
}

static int read_image(struct td_gpu_image *img, struct td_error *err)
{
    int rc = td_gpu_image_read(img, err);

    if (rc)
        td_fail_at(err, "%s", img->path);
    return rc;
}

static int open_image(const char *name, const void *data, size_t n, struct td_gpu_image **out, struct td_error *err)
{
    struct td_error local = {0};
    struct td_gpu_image *img = calloc(1, sizeof *img);
    int rc;

    *out = NULL;
    err = err ? err : &local;
    if (!img || !(img->path = strdup(name))) {
        free(img);
        return td_fail(err, TD_ENOMEM, "out of memory");
    }
    img->data = data;
    img->n = n;
    rc = data ? TD_OK : map_file(name, img, err);
    if (!rc)
        rc = read_image(img, err);
    if (rc) {
        td_gpu_image_close(img);
        return rc;
    }
    *out = img;
    return TD_OK;
}

int td_gpu_image_open(const char *path, struct td_gpu_image **out, struct td_error *err)
{
    return open_image(path, NULL, 0, out, err);
}

int td_gpu_image_memory(const void *data, size_t n, const char *name, struct td_gpu_image **out, struct td_error *err)
{
    return open_image(name, data ? data : "", n, out, err);
}

void td_gpu_image_close(struct td_gpu_image *img)
{
    int i;

    if (!img)
        return;
    for (i = 0; i < img->n_parts; i++) {
        td_gpu_kernel_list_release(&img->parts[i].kernels);
        free(img->parts[i].code);
    }
    if (img->mapped)
        munmap((void *)img->data, img->n);
    free(img->parts);
    free(img->containers);
    free(img->path);
    free(img);
}

/* ---- what it holds --------------------------------------------------------------------------- */

const char *td_gpu_image_path(const struct td_gpu_image *img)
{
    return img->path;
}

const char *td_gpu_image_what(const struct td_gpu_image *img)
{
    return img->what;
}

const char *td_gpu_image_needed(const struct td_gpu_image *img, const char *start)
{
    const size_t len = strlen(start);
    struct td_elf_section names;
    struct td_elf elf;
    size_t at, bytes;

    if (!td_elf_is(img->data, img->n) || td_elf_open(&elf, img->data, img->n, NULL) ||
        td_elf_section_find(&elf, ".dynstr", &names, NULL) != 1 || !names.data)
        return NULL;
    for (at = 0; at < names.size; at += bytes + 1) {
        bytes = strnlen((const char *)names.data + at, names.size - at);
        if (bytes >= len && at + bytes < names.size && !memcmp(names.data + at, start, len))
            return (const char *)names.data + at;
    }
    return NULL;
}

int td_gpu_image_containers(const struct td_gpu_image *img)
{
    return img->n_containers;
}

int td_gpu_image_entries(const struct td_gpu_image *img)
{
    return img->n_parts;
}

const struct td_gpu_entry *td_gpu_image_entry(const struct td_gpu_image *img, int i)
{
    return &img->parts[i].e;
}

const void *td_gpu_image_container(const struct td_gpu_image *img, int container, size_t *n)
{
    *n = img->containers[container].n;
    return img->containers[container].data;
}

/* ---- the kernels of an entry ----------------------------------------------------------------- */

static int read_cubin(struct td_gpu_part *p, const uint8_t *code, size_t n, struct td_error *err)
{
    struct td_cubin_facts facts;
    struct td_elf elf;
    int rc;

    if ((rc = td_elf_open(&elf, code, n, err)) || (rc = td_cubin_facts_read(&elf, &facts, err)))
        return rc;
    if (elf.machine != TD_ELF_CUDA)
        return td_fail(err, TD_ECORRUPT, "an entry for sm_%d is an ELF file for machine %u, not a cubin", p->e.sm, elf.machine);
    p->e.relocatable = facts.relocatable;
    p->e.global_bytes = facts.global_bytes;
    p->e.constant_bytes = facts.constant_bytes;
    return td_cubin_kernels(&elf, p->e.sm, &p->kernels, err);
}

static int read_object(struct td_gpu_part *p, const uint8_t *code, size_t n, struct td_error *err)
{
    char arch[TD_HSACO_ARCH];
    struct td_elf elf;
    int rc = td_elf_open(&elf, code, n, err);

    if (!rc && elf.machine != TD_ELF_AMDGPU)
        rc = td_fail(err, TD_ECORRUPT, "an entry for %s is an ELF file for machine %u, not AMD code", p->e.arch, elf.machine);
    return rc ? rc : td_hsaco_kernels(&elf, &p->kernels, arch, err);
}

static int read_part(struct td_gpu_part *p, struct td_error *err)
{
    const uint8_t *code = p->code ? p->code : p->stored.payload;
    uint8_t *unpacked = NULL;
    int rc = TD_OK;

    if (p->stored.packing && !p->code) {
        if ((rc = td_fatbin_unpack(&p->stored, &unpacked, err)))
            return rc;
        code = unpacked;
    }
    if (p->e.code == TD_GPU_CODE_PTX)
        rc = td_ptx_kernels((const char *)code, (size_t)p->e.bytes, &p->kernels, err);
    else if (p->e.code == TD_GPU_CODE_CUBIN)
        rc = read_cubin(p, code, (size_t)p->e.bytes, err);
    else if (p->e.code == TD_GPU_CODE_HSACO)
        rc = read_object(p, code, (size_t)p->e.bytes, err);
    free(unpacked);
    return rc;
}

int td_gpu_image_kernels(struct td_gpu_image *img, int i, const struct td_gpu_kernel_list **out, struct td_error *err)
{
    struct td_gpu_part *p = &img->parts[i];
    size_t k;

    if (!p->read && p->e.code != TD_GPU_CODE_OTHER) {
        if (read_part(p, &p->result))
            td_fail_at(&p->result, "%s: container %d, %s", img->path, p->e.container, p->e.arch);
        for (k = 0; k < p->kernels.n; k++)
            p->kernels.kernels[k].entry = i;
    }
    p->read = true;
    *out = &p->kernels;
    return p->result.code ? td_fail(err, p->result.code, "%s", p->result.msg) : TD_OK;
}

int td_gpu_image_code(struct td_gpu_image *img, int i, const void **data, size_t *n, struct td_error *err)
{
    struct td_gpu_part *p = &img->parts[i];
    int rc = p->stored.packing && !p->code ? td_fatbin_unpack(&p->stored, &p->code, err) : TD_OK;

    if (rc)
        return rc;
    *data = p->code ? p->code : p->stored.payload;
    *n = (size_t)p->e.bytes;
    return TD_OK;
}
