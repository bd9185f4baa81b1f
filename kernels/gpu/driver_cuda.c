/* driver_cuda.c - the CUDA driver behind driver.h.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library is found by dlopen, its functions by dlsym: nothing of CUDA is needed to build Tapedeck, and a machine without a GPU gets a sentence.
 * The primary context is used, as the CUDA runtime would. The stream is a blocking one: a copy in may return before its bytes have arrived, and only
 * such a stream waits for it. A mapping has the driver's granule as its size (2 MiB); the address behind it is
 * reserved and stays without memory: there an access ends the context with CUDA_ERROR_ILLEGAL_ADDRESS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gpu/cuda_abi.h"
#include "kernels/gpu/driver.h"

struct cuda {
    void *library;
#define MEMBER(name, member, args) int (*member) args;
    TD_CUDA_NEEDED(MEMBER)
    TD_CUDA_OPTIONAL(MEMBER)
#undef MEMBER
    int device;
    void *context, *stream, *events[2];
    int dead;                      /* the result that ended the context; 0: it lives */
};

/* ---- errors -------------------------------------------------------------------------------------------------------- */

/* What the driver documents as ending the context: "the process must be terminated and relaunched". */
static bool is_final(int result)
{
    switch (result) {
    case TD_CUDA_ILLEGAL_ADDRESS: case TD_CUDA_LAUNCH_TIMEOUT: case TD_CUDA_CONTEXT_IS_DESTROYED: case TD_CUDA_ASSERT: case TD_CUDA_HARDWARE_STACK_ERROR:
    case TD_CUDA_ILLEGAL_INSTRUCTION: case TD_CUDA_MISALIGNED_ADDRESS: case TD_CUDA_INVALID_ADDRESS_SPACE: case TD_CUDA_INVALID_PC:
    case TD_CUDA_LAUNCH_FAILED: case TD_CUDA_ECC_UNCORRECTABLE: return true;
    default: return false;
    }
}

static int code_of(int result)
{
    switch (result) {
    case TD_CUDA_OUT_OF_MEMORY: return TD_ENOMEM;
    case TD_CUDA_NO_BINARY_FOR_GPU: case TD_CUDA_UNSUPPORTED_PTX_VERSION: case TD_CUDA_NOT_SUPPORTED: return TD_EUNSUPPORTED;
    case TD_CUDA_NOT_FOUND: case TD_CUDA_NO_DEVICE: return TD_ENOTFOUND;
    default: return is_final(result) ? TD_ECRASH : TD_EIO;
    }
}

/* TD_OK, or the sentence "what: NAME (text)". */
static int say(struct cuda *c, int result, struct td_error *err, const char *what)
{
    const char *name = NULL, *text = NULL;

    if (!result)
        return TD_OK;
    if (is_final(result))
        c->dead = result;
    if (c->get_error_name(result, &name) || !name)
        name = "an error that it has no name for";
    if (c->get_error_string(result, &text) || !text)
        text = "";
    return td_fail(err, code_of(result), "%s: the CUDA driver says %s (%d)%s%s", what, name, result, *text ? ": " : "", text);
}

/* ---- open ---------------------------------------------------------------------------------------------------------- */

static const char *library_name(void)
{
    const char *named = getenv("TD_CUDA_LIBRARY");

    return named && *named ? named : "libcuda.so.1";
}

static int find_functions(struct cuda *c, struct td_error *err)
{
    const char *missing = NULL;
    void *symbol;

#define FIND(name, member, args) \
    if ((symbol = dlsym(c->library, #name))) \
        memcpy(&c->member, &symbol, sizeof symbol);
#define NEED(name, member, args) \
    FIND(name, member, args) else missing = #name;
    TD_CUDA_NEEDED(NEED)
    TD_CUDA_OPTIONAL(FIND)
#undef NEED
#undef FIND
    return missing ? td_fail(err, TD_ENOTFOUND, "%s has no %s: it is no CUDA driver, or one before CUDA 11", library_name(), missing) : TD_OK;
}

static int attribute(struct cuda *c, int which)
{
    int value = 0;

    return c->device_get_attribute(&value, which, c->device) || value < 0 ? 0 : value;
}

static void read_facts(struct cuda *c, struct td_gpu_facts *f)
{
    int version = 0;

    memset(f, 0, sizeof *f);
    if (c->device_get_name(f->name, (int)sizeof f->name, c->device))
        f->name[0] = '\0';
    f->name[sizeof f->name - 1] = '\0';
    c->driver_get_version(&version);
    snprintf(f->version, sizeof f->version, "driver CUDA %d.%d", version / 1000, version % 1000 / 10);
    f->sm = attribute(c, TD_CUDA_DEV_CAPABILITY_MAJOR) * 10 + attribute(c, TD_CUDA_DEV_CAPABILITY_MINOR);
    snprintf(f->arch, sizeof f->arch, "sm_%d", f->sm);
    f->shared_max = (uint32_t)attribute(c, TD_CUDA_DEV_MAX_SHARED_PER_BLOCK_OPTIN);
    if (!f->shared_max)
        f->shared_max = (uint32_t)attribute(c, TD_CUDA_DEV_MAX_SHARED_PER_BLOCK);
    for (int i = 0; i < 3; i++)
        f->grid_max[i] = (uint32_t)attribute(c, TD_CUDA_DEV_MAX_GRID_DIM_X + i);
    f->threads_max = (uint32_t)attribute(c, TD_CUDA_DEV_MAX_THREADS_PER_BLOCK);
    f->l2_bytes = (size_t)attribute(c, TD_CUDA_DEV_L2_CACHE_SIZE);
    f->multiprocessors = attribute(c, TD_CUDA_DEV_MULTIPROCESSOR_COUNT);
}

static int start(struct cuda *c, struct td_error *err)
{
    int rc = say(c, c->init(0), err, "cannot start CUDA"), i;

    if (!rc)
        rc = say(c, c->device_get(&c->device, 0), err, "no first CUDA device (CUDA_VISIBLE_DEVICES chooses it)");
    if (!rc)
        rc = say(c, c->primary_retain(&c->context, c->device), err, "cannot make a context on the first CUDA device");
    if (!rc)
        rc = say(c, c->ctx_set_current(c->context), err, "cannot use the context");
    if (!rc)
        rc = say(c, c->stream_create(&c->stream, 0), err, "cannot make a stream");
    for (i = 0; i < 2 && !rc; i++)
        rc = say(c, c->event_create(&c->events[i], 0), err, "cannot make an event");
    return rc;
}

static void cuda_close(void *device)
{
    struct cuda *c = device;

    if (!c)
        return;
    for (int i = 0; i < 2; i++)
        if (c->events[i])
            c->event_destroy(c->events[i]);
    if (c->stream)
        c->stream_destroy(c->stream);
    if (c->context)
        c->primary_release(c->device);
    if (c->library)
        dlclose(c->library);
    free(c);
}

static int cuda_open(void **device, struct td_gpu_facts *facts, struct td_error *err)
{
    struct cuda *c = calloc(1, sizeof *c);
    int rc;

    *device = NULL;
    if (!c)
        return td_fail(err, TD_ENOMEM, "out of memory");
    c->library = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    rc = c->library ? find_functions(c, err)
                    : td_fail(err, TD_ENOTFOUND, "no CUDA driver on this machine (%s); a build for CUDA runs where there is a GPU with its driver", dlerror());
    if (!rc)
        rc = start(c, err);
    if (rc) {
        cuda_close(c);
        return rc;
    }
    read_facts(c, facts);
    *device = c;
    return TD_OK;
}

static bool cuda_is_dead(const void *device)
{
    return ((const struct cuda *)device)->dead != 0;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static void cuda_free(void *device, struct td_gpu_memory *m)
{
    struct cuda *c = device;

    if (m->mapped_bytes)
        c->mem_unmap(m->reserved, m->mapped_bytes);
    if (m->handle)
        c->mem_release(m->handle);
    if (m->reserved)
        c->address_free(m->reserved, m->range_bytes);
    else if (m->base)
        c->mem_free(m->base);
    memset(m, 0, sizeof *m);
}

static int map_guarded(struct cuda *c, size_t bytes, struct td_gpu_memory *m, struct td_error *err)
{
    const struct td_cuda_location here = {TD_CUDA_LOCATION_DEVICE, c->device};
    const struct td_cuda_allocation what = {.type = TD_CUDA_ALLOCATION_PINNED, .location = here};
    const struct td_cuda_access access = {here, TD_CUDA_ACCESS_READWRITE};
    size_t granule = 0, room;
    int rc = say(c, c->mem_granularity(&granule, &what, TD_CUDA_GRANULARITY_MINIMUM), err, "guard");

    if (rc || !granule)
        return rc ? rc : td_fail(err, TD_EIO, "the CUDA driver says that mappings have no size");
    room = (bytes + granule - 1) / granule * granule;
    m->range_bytes = room + granule;
    if ((rc = say(c, c->address_reserve(&m->reserved, m->range_bytes, 0, 0, 0), err, "guard: cannot reserve addresses")))
        return rc;
    if ((rc = say(c, c->mem_create(&m->handle, room, &what, 0), err, "guard: no memory")))
        return rc;
    if ((rc = say(c, c->mem_map(m->reserved, room, 0, m->handle, 0), err, "guard: cannot map")))
        return rc;
    m->mapped_bytes = room;
    return say(c, c->mem_set_access(m->reserved, room, &access, 1), err, "guard: cannot open the mapping");
}

static int alloc_guarded(struct cuda *c, size_t bytes, size_t align, struct td_gpu_memory *m, struct td_error *err)
{
    int rc;

    if (!c->address_reserve || !c->address_free || !c->mem_create || !c->mem_release || !c->mem_map || !c->mem_unmap || !c->mem_set_access || !c->mem_granularity
        || !attribute(c, TD_CUDA_DEV_VIRTUAL_MEMORY))
        return td_fail(err, TD_EUNSUPPORTED, "this device or its driver cannot map memory (cuMemMap), so there are no guards; --guard off replays without");
    if ((rc = map_guarded(c, bytes, m, err))) {
        cuda_free(c, m);
        return rc;
    }
    m->address = (m->reserved + m->mapped_bytes - bytes) & ~(uint64_t)(align - 1);
    return TD_OK;
}

static int cuda_alloc(void *device, size_t bytes, size_t align, bool guard, struct td_gpu_memory *m, struct td_error *err)
{
    struct cuda *c = device;
    char what[64];
    int rc;

    memset(m, 0, sizeof *m);
    align = align ? align : 256;
    if (bytes > (size_t)1 << 40 || align > 4096 || align & (align - 1))
        return td_fail(err, TD_EINVAL, "%zu bytes at a multiple of %zu are no tensor for a GPU", bytes, align);
    if (guard && bytes) {
        rc = alloc_guarded(c, bytes, align, m, err);
    } else {
        snprintf(what, sizeof what, "%zu bytes on the GPU", bytes);
        rc = say(c, c->mem_alloc(&m->base, bytes + align), err, what); /* aligned to 256 bytes, small ones no better */
        m->address = rc ? 0 : (m->base + align - 1) & ~(uint64_t)(align - 1);
    }
    m->bytes = rc ? 0 : bytes;
    return rc;
}

static int cuda_wait(void *device, struct td_error *err)
{
    struct cuda *c = device;

    return say(c, c->stream_synchronize(c->stream), err, "the kernel did not end well");
}

static int cuda_copy_in(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err)
{
    struct cuda *c = device;
    int rc = cuda_wait(device, err);

    return rc || !bytes ? rc : say(c, c->copy_to_device(to, from, bytes), err, "cannot copy to the GPU");
}

static int cuda_copy_out(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err)
{
    struct cuda *c = device;
    int rc = cuda_wait(device, err);

    return rc || !bytes ? rc : say(c, c->copy_to_host(to, from, bytes), err, "cannot copy from the GPU");
}

static int cuda_set(void *device, uint64_t to, uint8_t value, size_t bytes, struct td_error *err)
{
    struct cuda *c = device;

    return bytes ? say(c, c->set_8_async(to, value, bytes, c->stream), err, "cannot fill memory on the GPU") : TD_OK;
}

/* ---- code ---------------------------------------------------------------------------------------------------------- */

static int cuda_load(void *device, const void *image, void **module, struct td_error *err)
{
    struct cuda *c = device;

    return say(c, c->module_load(module, image), err, "cannot load the build's code");
}

static void cuda_unload(void *device, void *module)
{
    struct cuda *c = device;

    if (module && !c->dead)
        c->module_unload(module);
}

static void read_params(struct cuda *c, struct td_gpu_function *f)
{
    size_t offset, size;

    f->n_params = -1;
    if (!c->func_get_param_info)
        return;
    for (f->n_params = 0; f->n_params < TD_GPU_PARAMS; f->n_params++) {
        if (c->func_get_param_info(f->handle, (size_t)f->n_params, &offset, &size))
            return;
        f->params[f->n_params] = (struct td_gpu_param){(uint32_t)offset, (uint32_t)size};
    }
}

static uint32_t function_attribute(struct cuda *c, const struct td_gpu_function *f, int which)
{
    int value = 0;

    return c->func_get_attribute(&value, which, f->handle) || value < 0 ? 0 : (uint32_t)value;
}

static int cuda_function(void *device, void *module, const char *symbol, struct td_gpu_function *f, struct td_error *err)
{
    struct cuda *c = device;
    int rc;

    memset(f, 0, sizeof *f);
    if ((rc = say(c, c->module_get_function(&f->handle, module, symbol), err, "the code that was loaded lacks the kernel")))
        return rc;
    read_params(c, f);
    f->shared_bytes = function_attribute(c, f, TD_CUDA_FUNC_SHARED_SIZE_BYTES);
    f->threads_max = function_attribute(c, f, TD_CUDA_FUNC_MAX_THREADS_PER_BLOCK);
    f->registers = function_attribute(c, f, TD_CUDA_FUNC_NUM_REGS);
    return TD_OK;
}

static int cuda_launch(void *device, const struct td_gpu_function *f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes, void **params,
                       struct td_error *err)
{
    struct cuda *c = device;

    if (shared_bytes && function_attribute(c, f, TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) < shared_bytes
        && say(c, c->func_set_attribute(f->handle, TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes), err, "shared memory"))
        return err ? err->code : TD_EIO;
    return say(c, c->launch(f->handle, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, c->stream, params, NULL), err,
               "cannot launch the kernel");
}

static int cuda_mark(void *device, int which, struct td_error *err)
{
    struct cuda *c = device;

    return say(c, c->event_record(c->events[which], c->stream), err, "cannot record an event");
}

static int cuda_elapsed(void *device, int64_t *ns, struct td_error *err)
{
    struct cuda *c = device;
    float ms = 0;
    int rc = say(c, c->event_synchronize(c->events[1]), err, "the kernel did not end well");

    if (!rc)
        rc = say(c, c->event_elapsed(&ms, c->events[0], c->events[1]), err, "no time between two events");
    *ns = (int64_t)((double)ms * 1e6);
    return rc;
}

const struct td_gpu_driver td_gpu_driver_cuda = {"cuda", cuda_open, cuda_close, cuda_is_dead, cuda_alloc, cuda_free, cuda_copy_in, cuda_copy_out, cuda_set, cuda_load,
                                                 cuda_unload, cuda_function, cuda_launch, cuda_wait, cuda_mark, cuda_elapsed};
