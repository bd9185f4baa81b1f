/* driver_cuda.c - the CUDA driver behind driver.h; most of it is driver_core.c.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library is opened by dlopen and its functions found by dlsym, so that Tapedeck builds without CUDA,
 * and says on a machine without a GPU what is missing. The primary context is used, as by the CUDA
 * runtime. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/driver_core.h"
#include "kernels/gpu/ptx_cache.h"

struct cuda {
    struct td_gpu_core core;
#define MEMBER(name, member, args) int (*member) args;
    TD_CUDA_OWN(MEMBER)
#undef MEMBER
    int (*func_get_param_info)(void *function, size_t i, size_t *offset, size_t *size); /* NULL before CUDA 12.4 */
    void *context;
    struct td_nvml *nvml;          /* opened when a condition is asked for */
    char no_nvml[200];
};

/* ---- open ------------------------------------------------------------------------------------ */

static void describe_error(struct td_gpu_core *core, int result, const char **name, const char **text)
{
    struct cuda *c = (struct cuda *)core;

    if (c->get_error_name(result, name))
        *name = NULL;
    if (c->get_error_string(result, text))
        *text = NULL;
}

static const char *library_name(void)
{
    const char *named = getenv("TD_CUDA_LIBRARY");

    return named && *named ? named : "libcuda.so.1";
}

static int find_functions(struct cuda *c, struct td_error *err)
{
    struct td_gpu_core *core = &c->core;
    const char *missing = NULL;

#define NEED(where, name, member) \
    if (!TD_GPU_CORE_FIND(core, #name, where->member)) \
        missing = #name;
#define SHARED(name, member, args) NEED(core, name, member)
#define OWN(name, member, args) NEED(c, name, member)
#define MAPPING(name, member, args) TD_GPU_CORE_FIND(core, #name, core->member);
    TD_CUDA_SHARED(SHARED)
    TD_CUDA_OWN(OWN)
    TD_CUDA_MAPPING(MAPPING)
    TD_CUDA_PINNING(MAPPING)
    TD_GPU_CORE_FIND(core, "cuFuncGetParamInfo", c->func_get_param_info);
#undef MAPPING
#undef OWN
#undef SHARED
#undef NEED
    return missing ? td_fail(err, TD_ENOTFOUND,
                             "%s has no %s: it is no CUDA driver, or one before CUDA 11",
                             library_name(), missing)
                   : TD_OK;
}

static void read_facts(struct td_gpu_core *c, struct td_gpu_facts *f)
{
    int version = 0;

    memset(f, 0, sizeof *f);
    if (c->device_get_name(f->name, (int)sizeof f->name, c->device))
        f->name[0] = '\0';
    f->name[sizeof f->name - 1] = '\0';
    c->driver_get_version(&version);
    snprintf(f->version, sizeof f->version, "driver CUDA %d.%d", version / 1000, version % 1000 / 10);
    f->sm = td_gpu_core_attribute(c, TD_CUDA_DEV_CAPABILITY_MAJOR) * 10 + td_gpu_core_attribute(c, TD_CUDA_DEV_CAPABILITY_MINOR);
    snprintf(f->arch, sizeof f->arch, "sm_%d", f->sm);
    f->shared_max = (uint32_t)td_gpu_core_attribute(c, TD_CUDA_DEV_MAX_SHARED_PER_BLOCK_OPTIN);
    if (!f->shared_max)
        f->shared_max = (uint32_t)td_gpu_core_attribute(c, TD_CUDA_DEV_MAX_SHARED_PER_BLOCK);
    for (int i = 0; i < 3; i++)
        f->grid_max[i] = (uint32_t)td_gpu_core_attribute(c, TD_CUDA_DEV_MAX_GRID_DIM_X + i);
    f->threads_max = (uint32_t)td_gpu_core_attribute(c, TD_CUDA_DEV_MAX_THREADS_PER_BLOCK);
    f->l2_bytes = (size_t)td_gpu_core_attribute(c, TD_CUDA_DEV_L2_CACHE_SIZE);
    f->multiprocessors = td_gpu_core_attribute(c, TD_CUDA_DEV_MULTIPROCESSOR_COUNT);
}

static const char *why_no_guards(struct td_gpu_core *c)
{
    bool all = true;

#define HAS(name, member, args) all = all && c->member;
    TD_CUDA_MAPPING(HAS)
#undef HAS
    return all && td_gpu_core_attribute(c, TD_CUDA_DEV_VIRTUAL_MEMORY)
               ? NULL
               : "this device or its driver cannot map memory (cuMemMap), so there are no guards";
}

static int start_device(struct cuda *c, bool beside_others, struct td_error *err)
{
    struct td_gpu_core *core = &c->core;
    int rc = td_gpu_core_check(core, core->init(0), err, "cannot start CUDA");

    if (!rc)
        rc = td_gpu_core_check(core, core->device_get(&core->device, 0), err,
                               "no first CUDA device (CUDA_VISIBLE_DEVICES chooses it)");
    if (!rc && beside_others && td_gpu_core_attribute(core, TD_CUDA_DEV_COMPUTE_MODE))
        rc = td_fail(err, TD_EUNSUPPORTED, "the GPU serves one process at a time (its compute mode), and a build may need it");
    if (!rc)
        rc = td_gpu_core_check(core, c->primary_retain(&c->context, core->device), err,
                               "cannot make a context on the first CUDA device");
    if (!rc)
        rc = td_gpu_core_check(core, c->ctx_set_current(c->context), err, "cannot use the context");
    return rc ? rc : td_gpu_core_start(core, err);
}

static void cuda_close(void *device)
{
    struct cuda *c = device;

    if (!c)
        return;
    td_nvml_close(c->nvml);
    td_gpu_core_stop(&c->core);
    if (c->context)
        c->primary_release(c->core.device);
    if (c->core.library)
        dlclose(c->core.library);
    free(c);
}

static int cuda_open(void **device, bool beside_others, struct td_gpu_facts *facts, struct td_error *err)
{
    struct cuda *c = calloc(1, sizeof *c);
    char ptx_off[sizeof facts->ptx_off];
    int rc;

    *device = NULL;
    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory");
    c->core.name = "the CUDA driver";
    c->core.describe = describe_error;
    td_gpu_ptx_cache_open(ptx_off, sizeof ptx_off);
    c->core.library = dlopen(library_name(),
                             RTLD_NOW | RTLD_LOCAL |
                                 RTLD_NODELETE); /* the driver has threads and memory of its own */
    rc = c->core.library ? find_functions(c, err)
                         : td_fail(err, TD_ENOTFOUND,
                                   "no CUDA driver on this machine (%s); a build for CUDA runs "
                                   "where there is a GPU with its driver",
                                   dlerror());
    if (!rc)
        rc = start_device(c, beside_others, err);
    if (rc) {
        cuda_close(c);
        return rc;
    }
    read_facts(&c->core, facts);
    memcpy(facts->ptx_off, ptx_off, sizeof ptx_off);
    c->core.no_guards = why_no_guards(&c->core);
    *device = c;
    return TD_OK;
}

/* ---- code ------------------------------------------------------------------------------------ */

static int cuda_function(void *device, void *module, const char *symbol, struct td_gpu_function *f, struct td_error *err)
{
    struct cuda *c = device;
    int rc = td_gpu_core_function(device, module, symbol, f, err);
    size_t offset, size;

    if (rc || !c->func_get_param_info)
        return rc;
    for (f->n_params = 0; f->n_params < TD_GPU_PARAMS; f->n_params++) {
        if (c->func_get_param_info(f->handle, (size_t)f->n_params, &offset, &size))
            break;
        f->params[f->n_params] = (struct td_gpu_param){(uint32_t)offset, (uint32_t)size};
    }
    return TD_OK;
}

static int cuda_launch(void *device, const struct td_gpu_function *f, const uint32_t grid[3],
                       const uint32_t block[3], uint32_t shared_bytes, void **params,
                       struct td_error *err)
{
    struct cuda *c = device;
    struct td_gpu_core *core = &c->core;

    if (shared_bytes &&
        td_gpu_core_function_attribute(core, f, TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) <
            shared_bytes &&
        td_gpu_core_check(core,
                          c->func_set_attribute(f->handle,
                                                TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                (int)shared_bytes),
                          err, "shared memory"))
        return err ? err->code : TD_EIO;
    return td_gpu_core_check(core,
                             core->launch(f->handle, grid[0], grid[1], grid[2], block[0], block[1],
                                          block[2], shared_bytes, core->stream, params, NULL),
                             err, "cannot launch the kernel");
}

/* CUDA and NVML number devices differently, and CUDA_VISIBLE_DEVICES is for CUDA alone; both know the
 * device by its place on the bus. */
static const char *cuda_condition(void *device, struct td_gpu_condition *out)
{
    struct cuda *c = device;
    char bus_id[32];

    if (!c->nvml && !c->no_nvml[0]) {
        snprintf(bus_id, sizeof bus_id, "%08x:%02x:%02x.0",
                 (unsigned)td_gpu_core_attribute(&c->core, TD_CUDA_DEV_PCI_DOMAIN_ID) & 0xffff,
                 (unsigned)td_gpu_core_attribute(&c->core, TD_CUDA_DEV_PCI_BUS_ID) & 0xff,
                 (unsigned)td_gpu_core_attribute(&c->core, TD_CUDA_DEV_PCI_DEVICE_ID) & 0xff);
        c->nvml = td_nvml_open(bus_id, c->no_nvml, sizeof c->no_nvml);
    }
    if (!c->nvml)
        return c->no_nvml[0] ? c->no_nvml : "no memory";
    td_nvml_read(c->nvml, out);
    return NULL;
}

const struct td_gpu_driver td_gpu_driver_cuda = {.name = "cuda",
                                                 .open = cuda_open,
                                                 .close = cuda_close,
                                                 .function = cuda_function,
                                                 .launch = cuda_launch,
                                                 .condition = cuda_condition,
                                                 TD_GPU_CORE_TABLE};
