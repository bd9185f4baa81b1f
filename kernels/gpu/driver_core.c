/* driver_core.c - memory, copies, code and times behind driver.h, through functions that CUDA and HIP both have.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The stream is a blocking one: a copy to the device may return before its bytes have arrived, and only
 * such a stream waits for it. The size of a guarded mapping is the driver's granule (2 MiB); the address
 * behind it is reserved and has no memory, so that an access there ends the context (CUDA:
 * CUDA_ERROR_ILLEGAL_ADDRESS) or the process (HIP). */
#include "kernels/gpu/driver_core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

/* Errors that the CUDA driver documents as final: "the process must be terminated and relaunched". HIP
 * has some of them, with the same numbers. And those that a device gives which is gone, as one that has
 * fallen off the bus: whether it comes back, a new process will see. */
static bool is_final(int result)
{
    switch (result) {
    case TD_CUDA_ILLEGAL_ADDRESS:
    case TD_CUDA_LAUNCH_TIMEOUT:
    case TD_CUDA_CONTEXT_IS_DESTROYED:
    case TD_CUDA_ASSERT:
    case TD_CUDA_HARDWARE_STACK_ERROR:
    case TD_CUDA_ILLEGAL_INSTRUCTION:
    case TD_CUDA_MISALIGNED_ADDRESS:
    case TD_CUDA_INVALID_ADDRESS_SPACE:
    case TD_CUDA_INVALID_PC:
    case TD_CUDA_LAUNCH_FAILED: case TD_CUDA_ECC_UNCORRECTABLE:
    case TD_CUDA_DEVICE_UNAVAILABLE: case TD_CUDA_NO_DEVICE: case TD_CUDA_INVALID_DEVICE: case TD_CUDA_UNKNOWN: return true;
    default: return false;
    }
}

static int code_of(int result)
{
    switch (result) {
    case TD_CUDA_OUT_OF_MEMORY: return TD_ENOMEM;
    case TD_CUDA_NO_BINARY_FOR_GPU: case TD_CUDA_UNSUPPORTED_PTX_VERSION: case TD_CUDA_NOT_SUPPORTED: return TD_EUNSUPPORTED;
    case TD_CUDA_NOT_FOUND: case TD_CUDA_NO_DEVICE: case TD_CUDA_INVALID_DEVICE: return TD_ENOTFOUND;
    default: return is_final(result) ? TD_ECRASH : TD_EIO;
    }
}

int td_gpu_core_check(struct td_gpu_core *c, int result, struct td_error *err, const char *what)
{
    const char *name = NULL, *text = NULL;

    if (!result)
        return TD_OK;
    if (is_final(result))
        c->dead = result;
    c->describe(c, result, &name, &text);
    name = name ? name : "an error that it has no name for";
    text = text ? text : "";
    return td_fail(err, code_of(result), "%s: %s says %s (%d)%s%s", what, c->name, name, result, *text ? ": " : "", text);
}

bool td_gpu_core_is_dead(const void *device)
{
    return ((const struct td_gpu_core *)device)->dead != 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

bool td_gpu_core_symbol(void *library, const char *name, void *fn, size_t bytes)
{
    void *symbol = dlsym(library, name);

    memset(fn, 0, bytes);
    if (symbol && bytes == sizeof symbol)
        memcpy(fn, &symbol, sizeof symbol); /* ISO C has no cast from object to function */
    return symbol != NULL;
}

int td_gpu_core_attribute(struct td_gpu_core *c, int which)
{
    int value = 0;

    return c->device_get_attribute(&value, which, c->device) || value < 0 ? 0 : value;
}

int td_gpu_core_start(struct td_gpu_core *c, struct td_error *err)
{
    int rc = td_gpu_core_check(c, c->stream_create(&c->stream, 0), err, "cannot make a stream"), i;

    for (i = 0; i < 2 && !rc; i++)
        rc = td_gpu_core_check(c, c->event_create(&c->events[i], 0), err, "cannot make an event");
    return rc;
}

void td_gpu_core_stop(struct td_gpu_core *c)
{
    for (int i = 0; i < 2; i++)
        if (c->events[i])
            c->event_destroy(c->events[i]);
    if (c->stream)
        c->stream_destroy(c->stream);
    c->events[0] = c->events[1] = c->stream = NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Unlike cuMemFree, cuMemUnmap waits for nothing, so wait here for what may still use the memory: fills
 * in our stream, and in the default stream a copy of up to 64 KiB from pageable memory, which returned
 * once it was staged. */
void td_gpu_core_free(void *device, struct td_gpu_memory *m)
{
    struct td_gpu_core *c = device;

    if (m->mapped_bytes) {
        c->stream_synchronize(c->stream);
        c->stream_synchronize(NULL);
        c->mem_unmap(m->reserved, m->mapped_bytes);
    }
    if (m->handle)
        c->mem_release(m->handle);
    if (m->reserved)
        c->address_free(m->reserved, m->range_bytes);
    else if (m->base)
        c->mem_free(m->base);
    memset(m, 0, sizeof *m);
}

static int map_guarded(struct td_gpu_core *c, size_t bytes, struct td_gpu_memory *m, struct td_error *err)
{
    const struct td_cuda_location here = {TD_CUDA_LOCATION_DEVICE, c->device};
    const struct td_cuda_allocation what = {.type = TD_CUDA_ALLOCATION_PINNED, .location = here};
    const struct td_cuda_access access = {here, TD_CUDA_ACCESS_READWRITE};
    size_t granule = 0, room;
    int rc = td_gpu_core_check(c, c->mem_granularity(&granule, &what, TD_CUDA_GRANULARITY_MINIMUM), err, "guard");

    if (rc || !granule)
        return rc ? rc : td_fail(err, TD_EIO, "%s says that mappings have no size", c->name);
    room = (bytes + granule - 1) / granule * granule;
    m->range_bytes = room + granule;
    if ((rc = td_gpu_core_check(c, c->address_reserve(&m->reserved, m->range_bytes, 0, 0, 0), err,
                                "guard: cannot reserve addresses")))
        return rc;
    if ((rc = td_gpu_core_check(c, c->mem_create(&m->handle, room, &what, 0), err, "guard: no memory")))
        return rc;
    if ((rc = td_gpu_core_check(c, c->mem_map(m->reserved, room, 0, m->handle, 0), err, "guard: cannot map")))
        return rc;
    m->mapped_bytes = room;
    return td_gpu_core_check(c, c->mem_set_access(m->reserved, room, &access, 1), err, "guard: cannot open the mapping");
}

static int alloc_guarded(struct td_gpu_core *c, size_t bytes, size_t align, struct td_gpu_memory *m, struct td_error *err)
{
    int rc;

    if (c->no_guards)
        return td_fail(err, TD_EUNSUPPORTED, "%s; --guard off replays without", c->no_guards);
    if ((rc = map_guarded(c, bytes, m, err))) {
        td_gpu_core_free(c, m);
        return rc;
    }
    m->address = (m->reserved + m->mapped_bytes - bytes) & ~(uint64_t)(align - 1);
    return TD_OK;
}

int td_gpu_core_alloc(void *device, size_t bytes, size_t align, bool guard, struct td_gpu_memory *m, struct td_error *err)
{
    struct td_gpu_core *c = device;
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
        rc = td_gpu_core_check(c, c->mem_alloc(&m->base, bytes + align), err, what); /* the driver aligns to 256 bytes only */
        m->address = rc ? 0 : (m->base + align - 1) & ~(uint64_t)(align - 1);
    }
    m->bytes = rc ? 0 : bytes;
    return rc;
}

int td_gpu_core_wait(void *device, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return td_gpu_core_check(c, c->stream_synchronize(c->stream), err, "the kernel did not end well");
}

void *td_gpu_core_stream(void *device)
{
    return ((struct td_gpu_core *)device)->stream;
}

int td_gpu_core_copy_in(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;
    int rc = td_gpu_core_wait(device, err);

    return rc || !bytes ? rc : td_gpu_core_check(c, c->copy_to_device(to, from, bytes), err, "cannot copy to the GPU");
}

int td_gpu_core_copy_out(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;
    int rc = td_gpu_core_wait(device, err);

    return rc || !bytes ? rc : td_gpu_core_check(c, c->copy_to_host(to, from, bytes), err, "cannot copy from the GPU");
}

bool td_gpu_core_pin(void *device, void *memory, size_t bytes)
{
    struct td_gpu_core *c = device;

    return c->host_register && c->host_unregister && !c->host_register(memory, bytes, 0);
}

void td_gpu_core_unpin(void *device, void *memory)
{
    struct td_gpu_core *c = device;

    c->host_unregister(memory);
}

bool td_gpu_core_copies_async(const void *device)
{
    const struct td_gpu_core *c = device;

    return c->host_register && c->host_unregister && c->copy_to_device_async && c->copy_to_host_async;
}

int td_gpu_core_copy_in_async(void *device, uint64_t to, const void *from, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return bytes ? td_gpu_core_check(c, c->copy_to_device_async(to, from, bytes, c->stream), err, "cannot copy to the GPU") : TD_OK;
}

int td_gpu_core_copy_out_async(void *device, void *to, uint64_t from, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return bytes ? td_gpu_core_check(c, c->copy_to_host_async(to, from, bytes, c->stream), err, "cannot copy from the GPU") : TD_OK;
}

int td_gpu_core_copy(void *device, uint64_t to, uint64_t from, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return bytes ? td_gpu_core_check(c, c->copy_within(to, from, bytes, c->stream), err, "cannot copy on the GPU") : TD_OK;
}

int td_gpu_core_set(void *device, uint64_t to, uint8_t value, size_t bytes, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return bytes ? td_gpu_core_check(c, c->set_8_async(to, value, bytes, c->stream), err,
                                     "cannot fill memory on the GPU")
                 : TD_OK;
}

/* ---- code ------------------------------------------------------------------------------------ */

int td_gpu_core_load(void *device, const void *image, void **module, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return td_gpu_core_check(c, c->module_load(module, image), err, "cannot load the build's code");
}

void td_gpu_core_unload(void *device, void *module)
{
    struct td_gpu_core *c = device;

    if (module && !c->dead)
        c->module_unload(module);
}

uint32_t td_gpu_core_function_attribute(struct td_gpu_core *c, const struct td_gpu_function *f, int which)
{
    int value = 0;

    return c->func_get_attribute(&value, which, f->handle) || value < 0 ? 0 : (uint32_t)value;
}

int td_gpu_core_function(void *device, void *module, const char *symbol, struct td_gpu_function *f, struct td_error *err)
{
    struct td_gpu_core *c = device;
    int rc;

    memset(f, 0, sizeof *f);
    if ((rc = td_gpu_core_check(c, c->module_get_function(&f->handle, module, symbol), err,
                                "the code that was loaded lacks the kernel")))
        return rc;
    f->n_params = -1;
    f->shared_bytes = td_gpu_core_function_attribute(c, f, TD_CUDA_FUNC_SHARED_SIZE_BYTES);
    f->threads_max = td_gpu_core_function_attribute(c, f, TD_CUDA_FUNC_MAX_THREADS_PER_BLOCK);
    f->registers = td_gpu_core_function_attribute(c, f, TD_CUDA_FUNC_NUM_REGS);
    return TD_OK;
}

int td_gpu_core_mark(void *device, int which, struct td_error *err)
{
    struct td_gpu_core *c = device;

    return td_gpu_core_check(c, c->event_record(c->events[which], c->stream), err, "cannot record an event");
}

int td_gpu_core_elapsed(void *device, int64_t *ns, struct td_error *err)
{
    struct td_gpu_core *c = device;
    float ms = 0;
    int rc = td_gpu_core_check(c, c->event_synchronize(c->events[1]), err, "the kernel did not end well");

    if (!rc)
        rc = td_gpu_core_check(c, c->event_elapsed(&ms, c->events[0], c->events[1]), err, "no time between two events");
    *ns = (int64_t)((double)ms * 1e6);
    return rc;
}
