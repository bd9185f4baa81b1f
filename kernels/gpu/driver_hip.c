/* driver_hip.c - AMD's HIP runtime behind driver.h; most of it is driver_core.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * As with CUDA the library is opened by dlopen. This file has never driven an AMD GPU: it was compared
 * with the headers of HIP 5.2 and later, and ran on a runtime of our own (tests/helpers/lib_fake_hip.c)
 * and, up to "no device", on Debian's libamdhip64 5.2.3.
 *
 * A launch passes its parameters as one block (`extra`), because the headers up to 5.2 say that
 * kernelParams is not implemented. The block holds what the kernel declares; the runtime adds the hidden
 * arguments behind it. HIP cannot tell how a kernel's block is laid out, so td_gpu_function.params comes
 * from the code object's metadata (gpu_build.c). An access to memory that is not there ends the process
 * (ROCm's queue handler aborts it), not only the context. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/driver_core.h"
#include "kernels/abi/hip_abi.h"

#define BLOCK_MAX 1024             /* of a parameter block; TD_GPU_PARAMS of 8 bytes take 256 */

struct hip {
    struct td_gpu_core core;
#define MEMBER(name, member, args) int (*member) args;
    TD_HIP_OWN(MEMBER)
    TD_HIP_OWN_OPTIONAL(MEMBER)
#undef MEMBER
#define TEXT(name, member, args) const char *(*member) args;
    TD_HIP_TEXTS(TEXT)
#undef TEXT
};

/* ---- open ------------------------------------------------------------------------------------ */

static void describe_error(struct td_gpu_core *core, int result, const char **name, const char **text)
{
    struct hip *h = (struct hip *)core;

    *name = h->get_error_name(result);
    *text = h->get_error_string(result);
    if (*name && *text && !strcmp(*name, *text)) /* as HIP 5 does */
        *text = NULL;
}

/* Stays loaded after dlclose, because ROCm's own threads run on in it. */
#define LOAD (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/* NULL: err says what was tried. */
static void *open_library(struct td_error *err)
{
    static const char *const usual[] = {"libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    const char *named = getenv("TD_HIP_LIBRARY");
    void *library = named && *named ? dlopen(named, LOAD) : NULL;

    for (size_t i = 0; (!named || !*named) && !library && i < sizeof usual / sizeof *usual; i++)
        library = dlopen(usual[i], LOAD);
    if (!library)
        td_fail(err, TD_ENOTFOUND,
                "no HIP runtime on this machine (%s); a build for AMD runs where there is a GPU "
                "with ROCm, whose libamdhip64.so TD_HIP_LIBRARY may name",
                dlerror());
    return library;
}

/* A function of HIP goes through a pointer with its own arguments into a member with CUDA's: so the
 * compiler compares the lists of both ABIs. */
static int find_functions(struct hip *h, struct td_error *err)
{
    struct td_gpu_core *c = &h->core;
    const char *missing = NULL;

#define FIND(result, where, name, member, args, otherwise) \
    { \
        result (*fn) args; \
        if (!TD_GPU_CORE_FIND(c, #name, fn)) \
            otherwise; \
        where->member = fn; \
    }
#define SHARED(name, member, args) FIND(int, c, name, member, args, missing = #name)
#define MAPPING(name, member, args) FIND(int, c, name, member, args, (void)0)
#define OWN(name, member, args) FIND(int, h, name, member, args, missing = #name)
#define OPTIONAL(name, member, args) FIND(int, h, name, member, args, (void)0)
#define TEXT(name, member, args) FIND(const char *, h, name, member, args, missing = #name)
    TD_HIP_SHARED(SHARED)
    TD_HIP_MAPPING(MAPPING)
    TD_HIP_PINNING(MAPPING)
    TD_HIP_OWN(OWN)
    TD_HIP_OWN_OPTIONAL(OPTIONAL)
    TD_HIP_TEXTS(TEXT)
#undef TEXT
#undef OPTIONAL
#undef OWN
#undef MAPPING
#undef SHARED
#undef FIND
    return missing ? td_fail(err, TD_ENOTFOUND,
                             "the library that should be HIP's runtime has no %s; TD_HIP_LIBRARY "
                             "names another",
                             missing)
                   : TD_OK;
}

static int start_device(struct hip *h, struct td_error *err)
{
    struct td_gpu_core *c = &h->core;
    int rc = td_gpu_core_check(c, c->init(0), err, "HIP does not start (no AMD GPU, or this user may not open /dev/kfd)");

    if (!rc)
        rc = td_gpu_core_check(c, c->device_get(&c->device, 0), err, "no first AMD device (HIP_VISIBLE_DEVICES chooses it)");
    if (!rc)
        rc = td_gpu_core_check(c, h->set_device(c->device), err, "cannot use the first AMD device");
    return rc ? rc : td_gpu_core_start(c, err);
}

/* "gfx90a:sramecc+:xnack-" */
static int read_gfx(struct hip *h, char *out, size_t size, struct td_error *err)
{
    const size_t at = h->get_properties_r0600 ? TD_HIP_PROPERTIES_R0600_GFX : TD_HIP_PROPERTIES_GFX;
    char *properties = calloc(1, TD_HIP_PROPERTIES_BYTES);
    int rc;

    if (!properties)
        return td_fail(err, TD_ENOMEM, "out of memory");
    rc = td_gpu_core_check(&h->core,
                           (h->get_properties_r0600 ? h->get_properties_r0600 : h->get_properties)(
                               properties, h->core.device),
                           err, "cannot ask the device for its properties");
    if (!rc && (strncmp(properties + at, "gfx", 3) || strnlen(properties + at, TD_HIP_GFX_BYTES) >= size))
        rc = td_fail(err, TD_EUNSUPPORTED,
                     "the HIP runtime says that the device is a \"%.40s\", which is no name of "
                     "AMD's code (gfx90a); is it a version of HIP that "
                     "this program knows (5, 6)?",
                     properties + at);
    if (!rc)
        snprintf(out, size, "%s", properties + at);
    free(properties);
    return rc;
}

static int read_facts(struct hip *h, struct td_gpu_facts *f, struct td_error *err)
{
    struct td_gpu_core *c = &h->core;
    int version = 0;

    memset(f, 0, sizeof *f);
    if (c->device_get_name(f->name, (int)sizeof f->name, c->device) || !f->name[0])
        snprintf(f->name, sizeof f->name, "an AMD GPU");
    f->name[sizeof f->name - 1] = '\0';
    c->driver_get_version(&version);
    snprintf(f->version, sizeof f->version, "HIP %d.%d.%d", version / 10000000, version / 100000 % 100, version % 100000);
    f->shared_max = (uint32_t)td_gpu_core_attribute(c, TD_HIP_DEV_MAX_SHARED_PER_BLOCK);
    for (int i = 0; i < 3; i++)
        f->grid_max[i] = (uint32_t)td_gpu_core_attribute(c, TD_HIP_DEV_MAX_GRID_DIM_X + i);
    f->threads_max = (uint32_t)td_gpu_core_attribute(c, TD_HIP_DEV_MAX_THREADS_PER_BLOCK);
    f->l2_bytes = (size_t)td_gpu_core_attribute(c, TD_HIP_DEV_L2_CACHE_SIZE);
    f->multiprocessors = td_gpu_core_attribute(c, TD_HIP_DEV_MULTIPROCESSOR_COUNT);
    return read_gfx(h, f->arch, sizeof f->arch, err);
}

static const char *why_no_guards(struct td_gpu_core *c)
{
    bool all = true;

#define HAS(name, member, args) all = all && c->member;
    TD_HIP_MAPPING(HAS)
#undef HAS
    return all && td_gpu_core_attribute(c, TD_HIP_DEV_VIRTUAL_MEMORY) ? NULL
               : "this device or its HIP runtime cannot map memory (hipMemMap; HIP has it since 5.3), so there are no guards";
}

static void hip_close(void *device)
{
    struct hip *h = device;

    if (!h)
        return;
    td_gpu_core_stop(&h->core);
    if (h->core.library)
        dlclose(h->core.library);
    free(h);
}

static int hip_open(void **device, bool beside_others, struct td_gpu_facts *facts, struct td_error *err)
{
    struct hip *h = calloc(1, sizeof *h);
    struct td_error own = {0};
    int rc;

    (void)beside_others; /* each device serves any number of processes */
    *device = NULL;
    err = err ? err : &own;
    if (!h)
        return td_fail(err, TD_ENOMEM, "out of memory");
    h->core.name = "the HIP runtime";
    h->core.describe = describe_error;
    h->core.library = open_library(err);
    rc = h->core.library ? find_functions(h, err) : err->code;
    if (!rc)
        rc = start_device(h, err);
    if (!rc)
        rc = read_facts(h, facts, err);
    if (rc) {
        hip_close(h);
        return rc;
    }
    h->core.no_guards = why_no_guards(&h->core);
    *device = h;
    return TD_OK;
}

/* ---- launch ---------------------------------------------------------------------------------- */

/* The parameters as the code object lays them out. */
static int fill_block(const struct td_gpu_function *f, void **params, uint8_t *block, size_t *bytes, struct td_error *err)
{
    int i;

    memset(block, 0, BLOCK_MAX);
    for (*bytes = 0, i = 0; i < f->n_params; i++) {
        const struct td_gpu_param *p = &f->params[i];

        if (p->size > BLOCK_MAX || p->offset > BLOCK_MAX - p->size)
            return td_fail(
                err, TD_EUNSUPPORTED,
                "the kernel's parameter %d lies %u bytes into its block; at most %d are passed", i,
                p->offset, BLOCK_MAX);
        memcpy(block + p->offset, params[i], p->size);
        if (p->offset + p->size > *bytes)
            *bytes = p->offset + p->size;
    }
    return f->n_params < 0 ? td_fail(err, TD_EUNSUPPORTED, "nobody says how the kernel's parameters are laid out") : TD_OK;
}

static int hip_launch(void *device, const struct td_gpu_function *f, const uint32_t grid[3],
                      const uint32_t block[3], uint32_t shared_bytes, void **params,
                      struct td_error *err)
{
    struct td_gpu_core *c = device;
    uint8_t values[BLOCK_MAX];
    size_t bytes;
    void *extra[] = {(void *)TD_HIP_PARAM_BUFFER_POINTER, values, (void *)TD_HIP_PARAM_BUFFER_SIZE,
                     &bytes, (void *)TD_HIP_PARAM_END};
    int rc = fill_block(f, params, values, &bytes, err);

    if (rc)
        return rc;
    return td_gpu_core_check(c,
                             c->launch(f->handle, grid[0], grid[1], grid[2], block[0], block[1],
                                       block[2], shared_bytes, c->stream, NULL, extra),
                             err, "cannot launch the kernel");
}

static const char *hip_condition(void *device, struct td_gpu_condition *out)
{
    (void)device, (void)out;
    return "clocks of AMD GPUs are not read (rocm_smi)";
}

const struct td_gpu_driver td_gpu_driver_hip = {.name = "hip",
                                                .open = hip_open,
                                                .close = hip_close,
                                                .function = td_gpu_core_function,
                                                .launch = hip_launch,
                                                .condition = hip_condition,
                                                TD_GPU_CORE_TABLE};
