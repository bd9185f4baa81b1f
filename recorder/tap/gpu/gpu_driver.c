/* gpu_driver.c - the table of the driver's functions, and what streams are asked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_driver.h"

struct tap_gpu_driver tap_driver;

bool tap_gpu_stream_is_capturing(void *stream)
{
    int status = TD_CUDA_CAPTURE_NONE;

    return tap_driver.stream_is_capturing(stream, &status) || status != TD_CUDA_CAPTURE_NONE;
}

uint64_t tap_gpu_stream_number(void *stream)
{
    unsigned long long id = 0;

    return tap_driver.stream_id(stream, &id) ? 0 : id + 1;
}

int tap_gpu_capability(void)
{
    int device, major, minor;

    if (!tap_driver.ctx_device || !tap_driver.device_attribute || tap_driver.ctx_device(&device) ||
        tap_driver.device_attribute(&major, TD_CUDA_DEV_CAPABILITY_MAJOR, device) ||
        tap_driver.device_attribute(&minor, TD_CUDA_DEV_CAPABILITY_MINOR, device))
        return 0;
    return major * 10 + minor;
}

void *tap_gpu_context_of(void *stream)
{
    void *context = NULL;

    if (tap_driver.context_of)
        return tap_driver.context_of(stream);
    return tap_driver.ctx_current && !tap_driver.ctx_current(&context) ? context : NULL;
}

int tap_gpu_error_before(void)
{
    return tap_driver.peek_error ? tap_driver.peek_error() : 0;
}

void tap_gpu_error_restore(int before)
{
    if (tap_driver.restore_error)
        tap_driver.restore_error(before);
}
