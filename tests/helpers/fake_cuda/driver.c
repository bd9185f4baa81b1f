/* driver.c - the fake driver's start, device, contexts, errors, faults and hooks, and the functions
 * of struct fake_cuda_api that a test calls.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_FAULTS 16
#define MAX_NAMES 128
#define MAX_STACK 8

struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .arch = 90, .devices = 1, .random = 88172645463325252u,
                    .legacy = {.blocking = true}, .per_thread = {.blocking = true}};

static struct { char what[16]; int left, code; } due[MAX_FAULTS];
static struct { const char *name; uint64_t n; } counts[MAX_NAMES];
static pthread_mutex_t due_lock = PTHREAD_MUTEX_INITIALIZER; /* kernels check without the driver's lock */
static _Thread_local void *contexts[MAX_STACK];
static _Thread_local int depth;
static char context_of_device[8];                            /* the addresses are the context handles */

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t fake_random(void) /* xorshift64* (Vigna, 2016) */
{
    fake.random ^= fake.random >> 12;
    fake.random ^= fake.random << 25;
    fake.random ^= fake.random >> 27;
    return (fake.random * 0x2545f4914f6cdd1du) >> 32;
}

void *this_context(void)
{
    return depth ? contexts[depth - 1] : NULL;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void add_fault(const char *what, int n, int code)
{
    int i = 0;

    pthread_mutex_lock(&due_lock);
    while (i < MAX_FAULTS && due[i].left)
        i++;
    if (i < MAX_FAULTS && n > 0) {
        snprintf(due[i].what, sizeof due[i].what, "%s", what);
        due[i].left = n;
        due[i].code = code;
    }
    pthread_mutex_unlock(&due_lock);
}

int fault_due(const char *what)
{
    int i, rc = 0;

    pthread_mutex_lock(&due_lock);
    for (i = 0; i < MAX_FAULTS; i++)
        if (due[i].left && !strcmp(due[i].what, what) && --due[i].left == 0)
            rc = due[i].code;
    pthread_mutex_unlock(&due_lock);
    return rc;
}

/* ---- a device that is lost ------------------------------------------------------------------- */

static struct { char file[256]; atomic_int left; int code; } loss;

static void read_loss(const char *text)
{
    int left = 0;

    if (text && sscanf(text, "%255[^:]:%d:%d", loss.file, &left, &loss.code) != 3)
        fprintf(stderr, "fake driver: TD_FAKE_CUDA_LOST=%s is no file:n:code\n", text);
    atomic_store(&loss.left, left);
}

int lost_device(bool launches)
{
    int fd;

    if (!loss.code)
        return 0;
    if (launches && atomic_fetch_sub(&loss.left, 1) == 1 && (fd = open(loss.file, O_CREAT | O_WRONLY, 0600)) >= 0)
        close(fd);
    return access(loss.file, F_OK) ? 0 : loss.code;
}

/* ---- the environment ------------------------------------------------------------------------- */

static void read_faults(const char *list)
{
    char what[16];
    int n, code, used;

    while (list && sscanf(list, "%15[^:]:%d:%d%n", what, &n, &code, &used) == 3) {
        add_fault(what, n, code);
        list += used + (list[used] == ',');
    }
}

static void load_plugins(const char *paths)
{
    char *copy = strdup(paths ? paths : ""), *rest = copy, *path;

    while ((path = strsep(&rest, ":"))) {
        void *lib = *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL, *symbol = lib ? dlsym(lib, "fake_cuda_plugin") : NULL;
        void (*plugin)(const struct fake_cuda_api *);

        if (symbol) {
            memcpy(&plugin, &symbol, sizeof plugin);
            plugin(fake_cuda_api());
        } else if (*path) {
            fprintf(stderr, "fake driver: %s is no plugin: %s\n", path, lib ? "no fake_cuda_plugin" : dlerror());
        }
    }
    free(copy);
}

static int number(const char *name, int missing)
{
    const char *s = getenv(name);

    return s ? atoi(s) : missing;
}

static void read_environment(void)
{
    const char *how = getenv("TD_FAKE_CUDA");

    fake.threaded = how && !strcmp(how, "thread");
    fake.arch = number("TD_FAKE_CUDA_ARCH", 90);
    fake.devices = number("TD_FAKE_CUDA_DEVICES", 1);
    fake.random += (uint64_t)number("TD_FAKE_CUDA_SEED", 0) * 2654435761u;
    read_faults(getenv("TD_FAKE_CUDA_FAULT"));
    read_hang(getenv("TD_FAKE_CUDA_HANG"));
    read_loss(getenv("TD_FAKE_CUDA_LOST"));
    add_kernel(&gather_kernel);
    add_kernel(&gather_waits_kernel);
    add_kernel(&cache_rows_kernel);
    load_plugins(getenv("TD_FAKE_CUDA_PLUGIN"));
}

static void get_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_environment);
}

/* ---- every call ------------------------------------------------------------------------------ */

void count_call(const char *name)
{
    int i = 0;

    while (i < MAX_NAMES - 1 && counts[i].name && strcmp(counts[i].name, name))
        i++;
    counts[i].name = name;
    counts[i].n++;
}

static _Thread_local uint64_t called_here;

int enter(const char *name, int need)
{
    get_ready();
    called_here++;
    hang_if_due(name);
    pthread_mutex_lock(&fake.lock);
    count_call(name);
    if (need == NEED_NOTHING)
        return 0;
    if (!fake.initialised)
        return TD_CUDA_NOT_INITIALIZED;
    if (need == NEED_CONTEXT && !this_context())
        return TD_CUDA_INVALID_CONTEXT;
    return need == NEED_CONTEXT ? fake.sticky : 0;
}

int leave(int result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static void call_hook(struct call_site *site)
{
    fake_cuda_hook_fn *hook = __atomic_load_n(&fake.hook, __ATOMIC_ACQUIRE); /* another thread may remove it */

    if (hook)
        hook(&site->call, __atomic_load_n(&fake.hook_user, __ATOMIC_ACQUIRE));
}

void hook_enter(struct call_site *site, const char *name, uint32_t cbid, const void *params, const char *symbol)
{
    *site = (struct call_site){.call = {name, cbid, params, symbol, this_context(), false, 0, __atomic_add_fetch(&fake.correlations, 1, __ATOMIC_RELAXED), NULL}};
    site->call.correlation_data = &site->word;
    call_hook(site);
}

void hook_exit(struct call_site *site, int result)
{
    site->call.exit = true;
    site->call.result = result;
    call_hook(site);
}

/* ---- start and device ------------------------------------------------------------------------ */

/* Load the library of CUDA_INJECTION64_PATH and call it, once a process, as the real driver
 * does. */
static void inject(void)
{
    static bool done;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *h = path && !__atomic_exchange_n(&done, true, __ATOMIC_SEQ_CST) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialise)(void) = h ? (int (*)(void))dlsym(h, "InitializeInjection") : NULL;

    if (initialise)
        initialise();
}

int cuInit(unsigned flags)
{
    int rc = enter("cuInit", NEED_NOTHING);

    (void)flags;
    if (!(rc = fault_due("init")) && (fake.devices < 1 || lost_device(false)))
        rc = TD_CUDA_NO_DEVICE;
    fake.initialised |= !rc;
    leave(rc);
    if (!rc)
        inject();
    return rc;
}

int cuDriverGetVersion(int *version)
{
    enter("cuDriverGetVersion", NEED_NOTHING);
    *version = 13000;
    return leave(0);
}

int cuDeviceGetCount(int *n)
{
    int rc = enter("cuDeviceGetCount", NEED_INIT);

    *n = fake.devices;
    return leave(rc);
}

int cuDeviceGet(int *device, int ordinal)
{
    int rc = enter("cuDeviceGet", NEED_INIT);

    *device = ordinal;
    return leave(rc ? rc : ordinal >= 0 && ordinal < fake.devices ? 0 : TD_CUDA_INVALID_DEVICE);
}

int cuDeviceGetName(char *name, int len, int device)
{
    int rc = enter("cuDeviceGetName", NEED_INIT);

    snprintf(name, (size_t)len, "Fake GPU %d", device);
    return leave(rc);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int rc = enter("cuDeviceGetAttribute", NEED_INIT);

    (void)device;
    switch (attribute) {
    case TD_CUDA_DEV_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case TD_CUDA_DEV_MAX_GRID_DIM_X: *value = INT32_MAX; break;
    case TD_CUDA_DEV_MAX_GRID_DIM_Y: case TD_CUDA_DEV_MAX_GRID_DIM_Z: *value = 65535; break;
    case TD_CUDA_DEV_MAX_SHARED_PER_BLOCK: *value = 48 << 10; break;
    case TD_CUDA_DEV_WARP_SIZE: *value = 32; break;
    case TD_CUDA_DEV_MULTIPROCESSOR_COUNT: *value = 132; break;
    case TD_CUDA_DEV_PCI_DOMAIN_ID: *value = 1; break;
    case TD_CUDA_DEV_PCI_BUS_ID: *value = 0x1b; break;
    case TD_CUDA_DEV_PCI_DEVICE_ID: *value = 0; break;
    case TD_CUDA_DEV_L2_CACHE_SIZE: *value = 1 << 20; break;
    case TD_CUDA_DEV_CAPABILITY_MAJOR: *value = fake.arch / 10; break;
    case TD_CUDA_DEV_CAPABILITY_MINOR: *value = fake.arch % 10; break;
    case TD_CUDA_DEV_MAX_SHARED_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case TD_CUDA_DEV_VIRTUAL_MEMORY: *value = 1; break;
    case TD_CUDA_DEV_COMPUTE_MODE: *value = getenv("TD_FAKE_CUDA_ALONE") ? 3 : 0; break;
    default: *value = 0;
    }
    return leave(rc);
}

/* ---- contexts -------------------------------------------------------------------------------- */

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int rc = enter("cuDevicePrimaryCtxRetain", NEED_INIT);

    if (!rc && (device < 0 || device >= (int)sizeof context_of_device))
        rc = TD_CUDA_INVALID_DEVICE;
    *context = rc ? NULL : &context_of_device[device];
    fake.retained += !rc;
    fake.retained_on = rc ? fake.retained_on : device;
    return leave(rc ? rc : fake.sticky);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    int rc = enter("cuDevicePrimaryCtxGetState", NEED_INIT);

    *flags = 0;
    *active = !rc && device == fake.retained_on && fake.retained > 0; /* one at a time */
    return leave(rc);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    int rc = enter("cuDevicePrimaryCtxRelease_v2", NEED_INIT);

    (void)device;
    if (!rc)
        fake.retained--;
    return leave(rc);
}

int cuCtxSetCurrent(void *context)
{
    int rc = enter("cuCtxSetCurrent", NEED_INIT);

    if (!rc && !depth)
        depth = 1;
    if (!rc)
        contexts[depth - 1] = context;
    if (!rc && !context)
        depth--;
    return leave(rc);
}

int cuCtxGetCurrent(void **context)
{
    int rc = enter("cuCtxGetCurrent", NEED_INIT);

    *context = this_context();
    return leave(rc);
}

int cuCtxPushCurrent_v2(void *context)
{
    int rc = enter("cuCtxPushCurrent_v2", NEED_INIT);

    if (!rc && (!context || depth == MAX_STACK))
        rc = TD_CUDA_INVALID_CONTEXT;
    if (!rc)
        contexts[depth++] = context;
    return leave(rc);
}

int cuCtxPopCurrent_v2(void **context)
{
    int rc = enter("cuCtxPopCurrent_v2", NEED_INIT);

    if (!rc && !depth)
        rc = TD_CUDA_INVALID_CONTEXT;
    if (!rc) {
        depth--;
        if (context)
            *context = contexts[depth];
    }
    return leave(rc);
}

int cuCtxGetDevice(int *device)
{
    int rc = enter("cuCtxGetDevice", NEED_CONTEXT);

    *device = rc ? -1 : (int)((char *)this_context() - context_of_device);
    return leave(rc);
}

int cuCtxGetId(void *context, unsigned long long *id)
{
    int rc = enter("cuCtxGetId", NEED_INIT);

    *id = (uintptr_t)context;
    return leave(rc ? rc : context ? 0 : TD_CUDA_INVALID_CONTEXT);
}

/* ---- errors and functions by name ------------------------------------------------------------ */

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"},
};

static int error_at(int code)
{
    int i = 0, n = (int)(sizeof errors / sizeof *errors);

    while (i < n && errors[i].code != code)
        i++;
    return i < n ? i : -1;
}

int cuGetErrorName(int result, const char **name)
{
    int i = error_at(result);

    *name = i < 0 ? NULL : errors[i].name;
    return i < 0 ? TD_CUDA_INVALID_VALUE : 0;
}

int cuGetErrorString(int result, const char **text)
{
    int i = error_at(result);

    *text = i < 0 ? NULL : errors[i].text;
    return i < 0 ? TD_CUDA_INVALID_VALUE : 0;
}

/* A name without the suffix of a version gives the version of CUDA 13.0. */
int cuGetProcAddress_v2(const char *symbol, void **fn, int version, uint64_t flags, int *status)
{
    static const char *const suffixes[] = {"_v2", ""};
    char name[96];
    Dl_info self;
    void *lib;

    (void)version, (void)flags;
    *fn = NULL;
    lib = dladdr((void *)context_of_device, &self) ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    for (size_t i = 0; lib && i < 2 && !*fn; i++) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        *fn = dlsym(lib, name);
    }
    if (lib)
        dlclose(lib);
    if (status)
        *status = *fn ? 0 : 1;
    return *fn ? 0 : TD_CUDA_NOT_FOUND;
}

/* ---- struct fake_cuda_api: what a test calls ------------------------------------------------- */

static void on_call(fake_cuda_hook_fn *fn, void *user)
{
    __atomic_store_n(&fake.hook_user, user, __ATOMIC_RELEASE);
    __atomic_store_n(&fake.hook, fn, __ATOMIC_RELEASE);
}

static void on_load(fake_cuda_load_fn *fn, void *user)
{
    fake.load_user = user;
    fake.load_hook = fn;
}

static void use_thread(bool on)
{
    get_ready();
    pthread_mutex_lock(&fake.lock);
    fake.threaded = on;
    wake_worker();
    pthread_mutex_unlock(&fake.lock);
}

static uint64_t calls(const char *name)
{
    uint64_t n = 0;

    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < MAX_NAMES && counts[i].name; i++)
        if (!strcmp(counts[i].name, name))
            n = counts[i].n;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static uint64_t calls_here(void)
{
    return called_here;
}

static size_t bytes_in_use(void)
{
    size_t n;

    pthread_mutex_lock(&fake.lock); /* a thread that was abandoned may be freeing */
    n = fake.bytes_in_use;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static size_t bytes_copied_in(void)
{
    size_t n;

    pthread_mutex_lock(&fake.lock); /* a thread that was abandoned may be freeing */
    n = fake.bytes_copied_in;
    pthread_mutex_unlock(&fake.lock);
    return n;
}

static void on_ran(fake_cuda_ran_fn *fn)
{
    atomic_store(&fake.ran, fn);
}

static void reset(void)
{
    get_ready();
    pthread_mutex_lock(&fake.lock);
    streams_finish_all();
    fake.sticky = 0;
    fake.hook = NULL;
    fake.load_hook = NULL;
    memset(due, 0, sizeof due);
    memset(counts, 0, sizeof counts);
    pthread_mutex_unlock(&fake.lock);
}

const struct fake_cuda_api *fake_cuda_api(void)
{
    static const struct fake_cuda_api api = {add_kernel, on_call, on_load, add_fault, use_thread, calls, calls_here, bytes_in_use, reset, on_ran, behind_graph, hang, is_hanging, bytes_copied_in};

    return &api;
}
