/* lib_fake_hip.c - a fake libamdhip64.so: HIP's functions over the fake CUDA driver (fake_cuda/).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plugins register the kernels (lib_fake_simt.so: our own kernels in the emulator; TD_FAKE_SIMT=64
 * gives wavefronts of 64 threads). This file does what HIP does differently from CUDA: names of
 * errors, numbers of attributes, device properties, code objects that must fit the device, and
 * launches with all parameters in one block. Such a block is checked as ROCm's runtime checks it,
 * and against the code object's metadata. The functions that only a server calls (kernels by their
 * stubs, streams, captures) are in fake_hip/.
 *
 *   TD_FAKE_CUDA_*     see fake_cuda/fake_cuda.h
 *   TD_FAKE_HIP_GFX    the device's name; default gfx90a:sramecc+:xnack-
 *   TD_FAKE_HIP_OLD    1: behave as HIP 5.2, which maps no memory; else as HIP 6.2 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/hip_abi.h"
#include "kernels/gpucode/hsaco.h"
#include "kernels/gpucode/image_find.h"
#include "tests/helpers/fake_cuda/fake_api.h"
#include "tests/helpers/fake_hip/fake_hip.h"

#define MAX_FUNCTIONS 4096

/* Written out here, since driver_hip.c takes them from hip_abi.h: offsetof(hipDeviceProp_tR0600,
 * gcnArchName), and hipDeviceAttributeVirtualMemoryManagementSupported, as gcc says of the headers
 * of ROCm 6.3 (ROCm/HIP, October 2024). */
#define R0600_GFX 1160
#define VIRTUAL_MEMORY 89

int hsa_code_object_reader_create_from_memory(const void *object, size_t n, uint64_t *reader);
#define DECLARE(name, member, args) int name args;
TD_HIP_SHARED(DECLARE)
TD_HIP_OWN(DECLARE)
TD_HIP_OWN_OPTIONAL(DECLARE)
TD_HIP_MAPPING(DECLARE)
#define DECLARE_TEXT(name, member, args) const char *name args;
TD_HIP_TEXTS(DECLARE_TEXT)

static struct module { struct module *next; void *cuda; struct td_gpu_image *image; int entry; } *modules;
static struct { void *handle; const struct td_gpu_kernel *kernel; } functions[MAX_FUNCTIONS];
static int n_functions;

int fake_hip_is_old(void)
{
    const char *s = getenv("TD_FAKE_HIP_OLD");

    return s && *s == '1';
}

static const char *gfx(void)
{
    const char *s = getenv("TD_FAKE_HIP_GFX");

    return s && *s ? s : "gfx90a:sramecc+:xnack-";
}

/* ---- start and device ------------------------------------------------------------------------ */

const char *hipGetErrorName(int result)
{
    static const struct { int result; const char *name; } names[] = {
        {0, "hipSuccess"}, {1, "hipErrorInvalidValue"}, {2, "hipErrorOutOfMemory"}, {98, "hipErrorInvalidDeviceFunction"}, {100, "hipErrorNoDevice"},
        {101, "hipErrorInvalidDevice"}, {200, "hipErrorInvalidImage"}, {201, "hipErrorInvalidContext"}, {209, "hipErrorNoBinaryForGpu"},
        {400, "hipErrorInvalidHandle"}, {500, "hipErrorNotFound"}, {700, "hipErrorIllegalAddress"}, {701, "hipErrorLaunchOutOfResources"},
        {719, "hipErrorLaunchFailure"}};
    size_t i = 0, n = sizeof names / sizeof *names;

    while (i < n && names[i].result != result)
        i++;
    return i < n ? names[i].name : "hipErrorUnknown";
}

const char *hipGetErrorString(int result)
{
    return hipGetErrorName(result); /* as HIP 5 does */
}

/* HIP does not load the library of CUDA_INJECTION64_PATH, so hide the variable from cuInit. */
int hipInit(unsigned flags)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    char *kept = path ? strdup(path) : NULL;
    int rc;

    unsetenv("CUDA_INJECTION64_PATH");
    rc = cuInit(flags);
    if (kept)
        setenv("CUDA_INJECTION64_PATH", kept, 1);
    free(kept);
    return rc;
}

int hipDriverGetVersion(int *version)
{
    *version = fake_hip_is_old() ? 50221153 : 60241133;
    return 0;
}

int hipDeviceGet(int *device, int ordinal)
{
    return cuDeviceGet(device, ordinal);
}

int hipSetDevice(int device)
{
    void *context = NULL;
    int rc = cuDevicePrimaryCtxRetain(&context, device);

    return fake_hip_return(rc ? rc : cuCtxSetCurrent(context));
}

int hipDeviceGetName(char *name, int len, int device)
{
    (void)device;
    snprintf(name, (size_t)len, "Fake AMD GPU");
    return 0;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case TD_HIP_DEV_MAX_THREADS_PER_BLOCK: return cuDeviceGetAttribute(value, TD_CUDA_DEV_MAX_THREADS_PER_BLOCK, device);
    case TD_HIP_DEV_MAX_GRID_DIM_X: case TD_HIP_DEV_MAX_GRID_DIM_Y: case TD_HIP_DEV_MAX_GRID_DIM_Z: *value = INT32_MAX; return 0;
    case TD_HIP_DEV_MAX_SHARED_PER_BLOCK: *value = 64 << 10; return 0;
    case TD_HIP_DEV_L2_CACHE_SIZE: *value = 1 << 20; return 0;
    case TD_HIP_DEV_MULTIPROCESSOR_COUNT: *value = 2; return 0;
    case TD_HIP_DEV_WARP_SIZE: *value = 64; return 0;
    case VIRTUAL_MEMORY: *value = !fake_hip_is_old(); return fake_hip_is_old() ? TD_CUDA_INVALID_VALUE : 0;
    default: *value = 0; return TD_CUDA_INVALID_VALUE;
    }
}

/* HIP 6 has both layouts of the properties. Each function fills only the bytes of its own
 * layout. */
static int properties(char *to, size_t bytes, size_t at)
{
    memset(to, 0, bytes);
    snprintf(to + at, TD_HIP_GFX_BYTES, "%s", gfx());
    return 0;
}

int hipGetDeviceProperties(void *to, int device)
{
    (void)device;
    return properties(to, 792, TD_HIP_PROPERTIES_GFX);
}

int hipGetDevicePropertiesR0600(void *to, int device)
{
    (void)device;
    return properties(to, 1472, R0600_GFX);
}

/* ---- code ------------------------------------------------------------------------------------ */

/* The size of an image, from its ELF header or bundle header: HIP gets no size either. 0: no
 * image. */
static size_t image_bytes(const void *image)
{
    struct td_hsaco_bundle b;
    Elf64_Ehdr e;
    size_t at = 0;

    memcpy(&e, image, sizeof e);
    if (td_hsaco_is_bundle(image, sizeof e))
        return td_hsaco_bundle_next(image, 1u << 30, &at, &b, NULL) == 1 ? b.n : 0;
    return memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_machine != 224 ? 0 : e.e_shoff + (size_t)e.e_shnum * e.e_shentsize;
}

/* Set *entry to the first code object of the image that fits this device. */
static int choose(struct td_gpu_image *image, int *entry)
{
    const struct td_gpu_device device = {.gfx = gfx()};
    int n = td_gpu_image_entries(image);

    for (*entry = 0; *entry < n; ++*entry)
        if (td_gpu_entry_fits(td_gpu_image_entry(image, *entry), &device))
            return 0;
    return TD_CUDA_NO_BINARY_FOR_GPU;
}

int hsa_code_object_reader_create_from_memory(const void *object, size_t n, uint64_t *reader)
{
    *reader = (uintptr_t)object;
    return object && n ? 0 : 0x1000;
}

int hipModuleLoadData(void **module, const void *image)
{
    struct module *m = calloc(1, sizeof *m);
    size_t bytes = image ? image_bytes(image) : 0, n;
    int rc = !m || !bytes || td_gpu_image_memory(image, bytes, "code object", &m->image, NULL) ? TD_CUDA_INVALID_IMAGE : 0;
    const void *code;
    uint64_t reader;

    if (!rc)
        rc = choose(m->image, &m->entry);
    if (!rc && (td_gpu_image_code(m->image, m->entry, &code, &n, NULL) || hsa_code_object_reader_create_from_memory(code, n, &reader)))
        rc = TD_CUDA_INVALID_IMAGE;
    if (!rc)
        rc = cuModuleLoadData(&m->cuda, code);
    if (rc) {
        if (m)
            td_gpu_image_close(m->image);
        free(m);
        return rc;
    }
    m->next = modules;
    *module = modules = m;
    return 0;
}

int hipModuleUnload(void *module)
{
    struct module **at = &modules, *m = module;
    int rc = cuModuleUnload(m->cuda);

    while (*at && *at != m)
        at = &(*at)->next;
    if (*at)
        *at = m->next;
    td_gpu_image_close(m->image);
    free(m);
    return rc;
}

int hipModuleGetFunction(void **function, void *module, const char *symbol)
{
    struct module *m = module;
    const struct td_gpu_kernel_list *list = NULL;
    int rc = cuModuleGetFunction(function, m->cuda, symbol);

    if (rc || td_gpu_image_kernels(m->image, m->entry, &list, NULL))
        return rc ? rc : TD_CUDA_INVALID_IMAGE;
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->kernels[i].symbol, symbol) && n_functions < MAX_FUNCTIONS) {
            functions[n_functions].handle = *function;
            functions[n_functions++].kernel = &list->kernels[i];
            return 0;
        }
    return TD_CUDA_NOT_FOUND;
}

int hipFuncGetAttribute(int *value, int attribute, void *function)
{
    return cuFuncGetAttribute(value, attribute, function);
}

const struct td_gpu_kernel *fake_hip_kernel(const void *function)
{
    for (int i = n_functions; i-- > 0;)
        if (functions[i].handle == function)
            return functions[i].kernel;
    return NULL;
}

/* Bytes of the parameters that the kernel declares, without the hidden ones behind them. */
static size_t declared_bytes(const void *function)
{
    const struct td_gpu_kernel *k = fake_hip_kernel(function);
    size_t bytes = 0;

    for (int p = 0; k && p < k->n_params; p++)
        if (k->params[p].offset + k->params[p].size > bytes)
            bytes = k->params[p].offset + k->params[p].size;
    return bytes;
}

/* Check the two forms of parameters. HIP 5.2's header calls kernelParams not implemented, but its
 * runtime accepts them (clr's ihipModuleLaunchKernel), as every later one does. */
static int is_launch(const void *function, void **params, void **extra)
{
    if (params || !extra)
        return params && !extra;
    return extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == (void *)3 && *(size_t *)extra[3] == declared_bytes(function);
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream,
                          void **params, void **extra)
{
    void *block[] = {(void *)TD_CUDA_PARAM_BUFFER_POINTER, NULL, (void *)TD_CUDA_PARAM_BUFFER_SIZE, NULL, (void *)TD_CUDA_PARAM_END};

    if (!is_launch(function, params, extra))
        return fake_hip_return(TD_CUDA_INVALID_VALUE);
    if (shared_bytes > 64 << 10 || (uint64_t)gx * bx >> 32 || (uint64_t)gy * by >> 32 || (uint64_t)gz * bz >> 32)
        return fake_hip_return(TD_CUDA_INVALID_VALUE);
    block[1] = extra ? extra[1] : NULL;
    block[3] = extra ? extra[3] : NULL;
    return fake_hip_return(cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, params ? NULL : block));
}

/* ---- functions that differ from CUDA's only in their names ---------------------------------- */

#define SAME(hip, cuda, args, values) \
    int hip args \
    { \
        return cuda values; \
    }
SAME(hipMalloc, cuMemAlloc_v2, (uint64_t *address, size_t bytes), (address, bytes))
SAME(hipFree, cuMemFree_v2, (uint64_t address), (address))
SAME(hipMemcpyHtoD, cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes), (to, from, bytes))
SAME(hipMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes), (to, from, bytes))
SAME(hipMemsetD8Async, cuMemsetD8Async, (uint64_t to, unsigned char value, size_t n, void *stream), (to, value, n, stream))
SAME(hipStreamCreateWithFlags, cuStreamCreate, (void **stream, unsigned flags), (stream, flags))
SAME(hipStreamDestroy, cuStreamDestroy_v2, (void *stream), (stream))
SAME(hipStreamSynchronize, cuStreamSynchronize, (void *stream), (stream))
SAME(hipEventCreateWithFlags, cuEventCreate, (void **event, unsigned flags), (event, flags))
SAME(hipEventDestroy, cuEventDestroy_v2, (void *event), (event))
SAME(hipEventRecord, cuEventRecord, (void *event, void *stream), (event, stream))
SAME(hipEventSynchronize, cuEventSynchronize, (void *event), (event))
SAME(hipEventElapsedTime, cuEventElapsedTime, (float *ms, void *from, void *to), (ms, from, to))
SAME(hipMemAddressReserve, cuMemAddressReserve, (uint64_t *address, size_t bytes, size_t alignment, uint64_t hint, unsigned long long flags),
     (address, bytes, alignment, hint, flags))
SAME(hipMemAddressFree, cuMemAddressFree, (uint64_t address, size_t bytes), (address, bytes))
SAME(hipMemCreate, cuMemCreate, (unsigned long long *handle, size_t bytes, const struct td_cuda_allocation *what, unsigned long long flags),
     (handle, bytes, what, flags))
SAME(hipMemRelease, cuMemRelease, (unsigned long long handle), (handle))
SAME(hipMemMap, cuMemMap, (uint64_t address, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags),
     (address, bytes, offset, handle, flags))
SAME(hipMemUnmap, cuMemUnmap, (uint64_t address, size_t bytes), (address, bytes))
SAME(hipMemSetAccess, cuMemSetAccess, (uint64_t address, size_t bytes, const struct td_cuda_access *access, size_t n), (address, bytes, access, n))
SAME(hipMemGetAllocationGranularity, cuMemGetAllocationGranularity, (size_t *bytes, const struct td_cuda_allocation *what, int option), (bytes, what, option))
