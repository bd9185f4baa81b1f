/* modules.c - the fake driver's modules and functions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 256
#define FATBIN_MAGIC 0xba55ed50u
#define IS_FUNCTION 0xf0f0f0f0u
#define IS_KERNEL 0xcececeecu

/* A module or library. Each kernel has two handles: a CUfunction and a CUkernel. */
struct module { struct module *next; unsigned n; uint32_t id; struct function functions[MAX_KERNELS], kernels[MAX_KERNELS]; };

static struct fake_cuda_kernel registered[MAX_KERNELS];
static int n_registered;
static uint32_t last_module;
static struct module *modules; /* including those that a broken context never unloads */
static struct module *spare;   /* the last one unloaded: the next one reuses its handles */

static void lay_out(struct fake_cuda_kernel *k)
{
    size_t at = 0;
    int i;

    for (i = 1; i < k->n_params; i++)
        if (k->param[i].offset)
            return;
    for (i = 0; i < k->n_params; i++) {
        size_t size = k->param[i].size, align = size == 1 || size == 2 || size == 4 ? size : 8;

        at = (at + align - 1) / align * align;
        k->param[i].offset = at;
        at += size;
    }
}

void add_kernel(const struct fake_cuda_kernel *kernel)
{
    int i = 0;

    while (i < n_registered && strcmp(registered[i].symbol, kernel->symbol))
        i++;
    if (i == MAX_KERNELS)
        abort();
    registered[i] = *kernel;
    lay_out(&registered[i]);
    n_registered += i == n_registered;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* The size of an image, from its own header: a loader gets no length either. 0: no image. */
static size_t image_bytes(const void *image)
{
    uint32_t magic;
    uint16_t header;
    uint64_t body;
    Elf64_Ehdr e;

    memcpy(&magic, image, sizeof magic);
    if (magic == FATBIN_MAGIC) {
        memcpy(&header, (const char *)image + 6, sizeof header);
        memcpy(&body, (const char *)image + 8, sizeof body);
        return header + (size_t)body;
    }
    if (!memcmp(image, ELFMAG, SELFMAG)) {
        size_t sections, segments;

        memcpy(&e, image, sizeof e);
        sections = e.e_shoff + (size_t)e.e_shnum * e.e_shentsize;
        segments = e.e_phoff + (size_t)e.e_phnum * e.e_phentsize;
        return sections > segments ? sections : segments;
    }
    return !memcmp(image, "TDFAKE", 6) || !memcmp(image, ".version ", 9) ? strlen(image) + 1 : 0;
}

/* True if the image has exactly this name. In a text a name ends at a space or at the end of a
 * line. */
static bool holds(const char *image, size_t bytes, const char *symbol)
{
    size_t n = strlen(symbol);
    const char *at = image;

    while ((at = memmem(at, bytes - (size_t)(at - image), symbol, n))) {
        char before = at > image ? at[-1] : '\0', after = at + n < image + bytes ? at[n] : '\0';

        if ((!before || before == '\n' || before == ' ') && (!after || after == '\n' || after == ' '))
            return true;
        at++;
    }
    return false;
}

/* True for a fatbin whose first entry is compressed: its names cannot be seen. */
static bool is_packed(const uint8_t *image, size_t bytes)
{
    uint32_t magic, packed_bytes;
    uint16_t header;

    if (bytes < 64)
        return false;
    memcpy(&magic, image, sizeof magic);
    memcpy(&header, image + 6, sizeof header);
    if (magic != FATBIN_MAGIC || header > bytes - 20)
        return false;
    memcpy(&packed_bytes, image + header + 16, sizeof packed_bytes);
    return packed_bytes != 0;
}

static void module_add(struct module *m, const struct fake_cuda_kernel *k)
{
    m->functions[m->n] = (struct function){m, k, 48 << 10, IS_FUNCTION};
    m->kernels[m->n++] = (struct function){m, k, 48 << 10, IS_KERNEL};
}

static int load(struct module **out, const void *image)
{
    size_t bytes = image ? image_bytes(image) : 0;
    struct module *m = spare ? spare : malloc(sizeof *m);
    int i;

    spare = NULL;
    memset(m, 0, sizeof *m);
    for (i = 0; bytes && i < n_registered; i++)
        if (is_packed(image, bytes) || holds(image, bytes, registered[i].symbol))
            module_add(m, &registered[i]);
    if (!bytes) {
        free(m);
        return TD_CUDA_INVALID_IMAGE;
    }
    jit_load(image, bytes, !memcmp(image, &(uint32_t){FATBIN_MAGIC}, sizeof(uint32_t)));
    m->id = ++last_module;
    m->next = modules;
    *out = modules = m;
    return 0;
}

static void tell(const struct module *m, const void *image)
{
    if (fake.load_hook)
        fake.load_hook(this_context(), image, image_bytes(image), m->id, fake.load_user);
}

static int load_image(const char *name, void **handle, const void *image)
{
    struct module *m = NULL;
    int rc = enter(name, NEED_CONTEXT);

    if (!rc)
        rc = fault_due("load");
    if (!rc)
        rc = load(&m, image);
    leave(rc);
    *handle = m;
    if (!rc)
        tell(m, image);
    return rc;
}

int cuModuleLoadData(void **module, const void *image)
{
    return load_image("cuModuleLoadData", module, image);
}

int cuLibraryLoadData(void **library, const void *image, int *jit, void **jit_values, unsigned n_jit, int *options, void **values, unsigned n)
{
    (void)jit, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n;
    return load_image("cuLibraryLoadData", library, image);
}

static int unload(const char *name, void *module)
{
    int rc = enter(name, NEED_CONTEXT);
    struct module **at = &modules;

    while (*at && *at != module)
        at = &(*at)->next;
    if (!rc && *at) {
        streams_finish_all();
        *at = (*at)->next;
        free(spare);
        spare = module;
    }
    return leave(rc);
}

int cuModuleUnload(void *module)
{
    return unload("cuModuleUnload", module);
}

int cuLibraryUnload(void *library)
{
    return unload("cuLibraryUnload", library);
}

/* ---- functions ------------------------------------------------------------------------------- */

static int find_function(const char *name, void **out, void *module, const char *symbol, bool as_kernel)
{
    struct module *m = module;
    int rc = enter(name, NEED_CONTEXT);
    unsigned i = 0;

    *out = NULL;
    while (!rc && i < m->n && strcmp(m->functions[i].kernel->symbol, symbol))
        i++;
    if (!rc && i == m->n)
        rc = TD_CUDA_NOT_FOUND;
    if (!rc)
        *out = as_kernel ? &m->kernels[i] : &m->functions[i];
    return leave(rc);
}

int cuModuleGetFunction(void **function, void *module, const char *symbol)
{
    return find_function("cuModuleGetFunction", function, module, symbol, false);
}

int cuLibraryGetKernel(void **kernel, void *library, const char *symbol)
{
    return find_function("cuLibraryGetKernel", kernel, library, symbol, true);
}

int cuKernelGetFunction(void **function, void *kernel)
{
    int rc = enter("cuKernelGetFunction", NEED_CONTEXT);
    struct function *k = kernel;

    if (!rc && k->magic == IS_KERNEL)
        *function = &k->module->functions[k - k->module->kernels];
    return leave(rc ? rc : k->magic == IS_KERNEL ? 0 : TD_CUDA_INVALID_HANDLE);
}

int cuModuleGetFunctionCount(unsigned *n, void *module)
{
    int rc = enter("cuModuleGetFunctionCount", NEED_CONTEXT);

    *n = rc ? 0 : ((struct module *)module)->n;
    return leave(rc);
}

int cuModuleEnumerateFunctions(void **functions, unsigned n, void *module)
{
    int rc = enter("cuModuleEnumerateFunctions", NEED_CONTEXT);
    struct module *m = module;
    unsigned i;

    for (i = 0; !rc && i < n && i < m->n; i++)
        functions[i] = &m->functions[i];
    return leave(rc);
}

static int param_info(const char *name, const struct function *f, uint32_t magic, size_t i, size_t *offset, size_t *size)
{
    int rc = enter(name, NEED_INIT);

    if (!rc && f->magic != magic)
        rc = TD_CUDA_INVALID_HANDLE;
    if (!rc && i >= (size_t)f->kernel->n_params)
        rc = TD_CUDA_INVALID_VALUE;
    if (!rc) {
        *offset = f->kernel->param[i].offset;
        if (size)
            *size = f->kernel->param[i].size;
    }
    return leave(rc);
}

int cuFuncGetParamInfo(void *function, size_t i, size_t *offset, size_t *size)
{
    return param_info("cuFuncGetParamInfo", function, IS_FUNCTION, i, offset, size);
}

int cuKernelGetParamInfo(void *kernel, size_t i, size_t *offset, size_t *size)
{
    return param_info("cuKernelGetParamInfo", kernel, IS_KERNEL, i, offset, size);
}

static int name_of(const char *call, const char **name, const struct function *f)
{
    int rc = enter(call, NEED_INIT);

    *name = rc ? NULL : f->kernel->symbol;
    return leave(rc);
}

int cuFuncGetName(const char **name, void *function)
{
    return name_of("cuFuncGetName", name, function);
}

int cuKernelGetName(const char **name, void *kernel)
{
    return name_of("cuKernelGetName", name, kernel);
}

int cuFuncGetModule(void **module, void *function)
{
    int rc = enter("cuFuncGetModule", NEED_INIT);

    *module = rc ? NULL : ((struct function *)function)->module;
    return leave(rc);
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    int rc = enter("cuFuncGetAttribute", NEED_INIT);
    const struct function *f = function;

    switch (rc ? -1 : attribute) {
    case TD_CUDA_FUNC_MAX_THREADS_PER_BLOCK: *value = f->kernel->max_threads ? f->kernel->max_threads : 1024; break;
    case TD_CUDA_FUNC_SHARED_SIZE_BYTES: *value = f->kernel->static_shared_bytes; break;
    case TD_CUDA_FUNC_NUM_REGS: *value = f->kernel->regs ? f->kernel->regs : 32; break;
    case TD_CUDA_FUNC_PTX_VERSION: case TD_CUDA_FUNC_BINARY_VERSION: *value = fake.arch; break;
    case TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->dynamic_shared_max; break;
    default: *value = 0;
    }
    return leave(rc);
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    int rc = enter("cuFuncSetAttribute", NEED_CONTEXT);
    struct function *f = function;

    if (!rc && attribute == TD_CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value + f->kernel->static_shared_bytes > 227 << 10)
            rc = TD_CUDA_INVALID_VALUE;
        else
            f->dynamic_shared_max = value;
    }
    return leave(rc);
}
