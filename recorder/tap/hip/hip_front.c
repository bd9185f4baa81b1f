/* hip_front.c - the front end for HIP (AMD GPUs): arming and its end.
 * SPDX-License-Identifier: Apache-2.0
 *
 * There is no CUPTI for AMD, and none is needed: LD_PRELOAD stands before the exported functions
 * that launch. Two things of a kernel are asked for: its name, of the runtime (hipKernelNameRef),
 * and where its parameters lie, which HIP cannot say: its code object's metadata does, and every
 * code object passes, unpacked and with its size, through hsa_code_object_reader_create_from_memory
 * when the runtime loads it.
 *
 * It has run on a fake runtime only (tests/helpers/lib_fake_hip.c), never on AMD hardware. */
#include "recorder/tap/core/tap.h"
#include "recorder/tap/cuda/cuda_front.h"
#include "recorder/tap/gpu/gpu_own_kernels.h"
#include "recorder/tap/gpu/gpu_session.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_threads.h"
#include "recorder/tap/hip/hip_code.h"
#include "recorder/tap/hip/hip_launch.h"
#include "recorder/tap/hip/hip_load.h"
#include "recorder/tap/hip/hip_use.h"

static void *guess_context(void)
{
    int device = tap_hip_only_device();

    return device < 0 ? NULL : tap_hip_context(device);
}

static const char *start(void)
{
    const char *why;

    if (!tap_hip_used())
        return NULL;
    if (tap_cuda_injected())
        return "this process uses CUDA and HIP: only CUDA's launches are seen";
    why = tap_gpu_session_begin(tap_hip_load(tap_hip_any_real()), guess_context);
    tap_gpu_watch_launches(!why);
    tap_hip_watch_launches(!why);
    return why;
}

static void stop(int wait_ms)
{
    if (tap_hip_watch_launches(false))
        tap_gpu_session_end(wait_ms);
}

static void tick(void)
{
    if (tap_hip_is_watching())
        tap_gpu_session_tick();
}

/* HIP's state of the parent is of no use in a child. A child that uses HIP itself is seen by
 * that. */
static void forked(void)
{
    bool was_watching = tap_hip_watch_launches(false);

    tap_hip_use_forget();
    tap_hip_launch_forget();
    tap_hip_code_forked();
    if (was_watching)
        tap_gpu_session_forked();
}

static bool describe(char *library, char *build, size_t n)
{
    library[0] = build[0] = '\0';
    if (!tap_hip_used())
        return false;
    tap_hip_library(library, n);
    return true;
}

static const char *trouble(void)
{
    const char *why = tap_hip_used() ? tap_gpu_own_kernels_trouble() : NULL;

    return why ? why : tap_gpu_stage_shortage();
}

TAP_FRONT(hip) = {.name = "hip",
                  .set_rows = tap_gpu_own_kernels_set,
                  .set_awake = tap_hip_set_awake,
                  .describe = describe,
                  .start = start,
                  .stop = stop,
                  .tick = tick,
                  .forked = forked,
                  .trouble = trouble};
