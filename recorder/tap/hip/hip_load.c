/* hip_load.c - find HIP's functions, and put them into the table of the GPU's driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table has CUDA's functions. What HIP lacks, or has in another way, is made up here:
 *   contexts           A device stands for its context (hipCtx* are deprecated). The context's
 *                      number is how often a device was reset in this process.
 *   numbers of streams The handle, with the count of streams that have ended: a handle is used
 *                      again only after its stream has ended.
 *   a batch's number   Written by hipStreamWriteValue32, as with CUDA. Where that is missing or
 *                      refuses (a device may), a fill of one word does it. Not hipLaunchHostFunc: a
 *                      thread of the runtime would need a CPU for it. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "recorder/tap/hip/hip_code.h"
#include "recorder/tap/hip/hip_load.h"

struct tap_hip_runtime tap_hip;

static _Atomic uint64_t resets, ended;
static bool write_refused;            /* for the holder of the gate */
static int device_before;             /* current before push(); for the tap's thread */
/* Its address is a number of this thread. */
static __thread __attribute__((tls_model("initial-exec"))) char mine;

/* ---- contexts and streams -------------------------------------------------------------------- */

void *tap_hip_context(int device)
{
    return (void *)(uintptr_t)(device + 1);
}

void *tap_hip_context_of(void *stream)
{
    int of = tap_hip_is_plain(stream) ? tap_hip.stream_device(stream) : -1;

    return of < 0 && tap_hip.get_device(&of) ? NULL : tap_hip_context(of);
}

void tap_hip_restore_error(int error_before)
{
    if (!error_before && tap_hip.peek_error())
        tap_hip.clear_error();
}

void tap_hip_reset(void)
{
    atomic_fetch_add(&resets, 1);
}

void tap_hip_stream_ended(void)
{
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
}

static int push(void *context)
{
    int rc = tap_hip.get_device(&device_before);

    return rc ? rc : tap_hip.set_device((int)(uintptr_t)context - 1);
}

static int pop(void **context)
{
    (void)context;
    return tap_hip.set_device(device_before);
}

static int context_number(void *context, unsigned long long *id)
{
    (void)context;
    *id = atomic_load(&resets);
    return 0;
}

static int stream_number(void *stream, unsigned long long *id)
{
    uintptr_t handle = stream == TD_HIP_STREAM_PER_THREAD ? (uintptr_t)&mine : (uintptr_t)stream;

    *id = (uint64_t)handle ^ atomic_load_explicit(&ended, memory_order_relaxed) << 48;
    return 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_2d(const struct td_cuda_copy_2d *c, void *stream)
{
    return tap_hip.copy_2d(c->dst_device, c->dst_pitch, c->src_device, c->src_pitch, c->width_bytes,
                           c->height, TD_HIP_COPY_ON_DEVICE, stream);
}

static int write_number(void *stream, uint64_t to, uint32_t value, unsigned flags)
{
    if (tap_hip.stream_write && !write_refused && !tap_hip.stream_write(stream, to, value, flags))
        return 0;
    write_refused = true;
    return tap_hip.set_32 ? tap_hip.set_32(to, (int)value, 1, stream) : TD_HIP_ERROR_UNKNOWN;
}

/* ---- loading --------------------------------------------------------------------------------- */

struct look { const char *part; char *path; size_t n; };

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct look *l = arg;

    (void)size;
    return info->dlpi_name && strstr(info->dlpi_name, l->part) &&
           snprintf(l->path, l->n, "%s", info->dlpi_name) < (int)l->n;
}

static bool mapped(const char *part, char *path, size_t n)
{
    struct look l = {part, path, n};

    return dl_iterate_phdr(look_at, &l) == 1;
}

static void fill_table(void)
{
#define SAME(member) tap_driver.member = tap_hip.member;
    SAME(mem_alloc)
    SAME(host_register) SAME(host_device_pointer) SAME(copy_on_device) SAME(copy_to_host)
        SAME(stream_create) SAME(stream_wait) SAME(stream_is_capturing) SAME(event_create)
            SAME(event_record) SAME(exchange_capture_mode)
#undef SAME
                tap_driver.ctx_push = push;
    tap_driver.ctx_pop = pop;
    tap_driver.context_id = context_number;
    tap_driver.stream_id = stream_number;
    tap_driver.copy_2d = copy_2d;
    tap_driver.stream_write = write_number;
    tap_driver.named_params = tap_hip_code_params;
    tap_driver.context_of = tap_hip_context_of;
    tap_driver.peek_error = tap_hip.peek_error;
    tap_driver.restore_error = tap_hip_restore_error;
}

const char *tap_hip_load(const void *fn)
{
    static bool loaded;
    static char why[96];
    char path[1024];
    void *h;

    if (loaded)
        return NULL;
    h = fn                                          ? tap_real_library(fn, NULL, 0)
        : mapped("/libamdhip64", path, sizeof path) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY)
                                                    : NULL;
    if (!h)
        return "libamdhip64 is not mapped in this process";
#define FIND(name, member, args) *(void **)&tap_hip.member = dlsym(h, #name);
#define NEED(name, member, args) \
    if (!tap_hip.member) \
        return snprintf(why, sizeof why, "the HIP runtime has no %s: it is too old", #name), why;
    TD_HIP_TAP_NEEDED(FIND)
    TD_HIP_TAP_OPTIONAL(FIND)
    TD_HIP_TAP_TEXTS(FIND)
    TD_HIP_TAP_NEEDED(NEED)
    TD_HIP_TAP_TEXTS(NEED)
    fill_table();
    loaded = true;
    return NULL;
}

void tap_hip_library(char *library, size_t n)
{
    static const char *const parts[] = {"/vllm/_C_stable_libtorch", "/vllm/_C", "/libamdhip64"};
    size_t i;

    library[0] = '\0';
    for (i = 0; i < sizeof parts / sizeof *parts; i++)
        if (mapped(parts[i], library, n))
            return;
}
