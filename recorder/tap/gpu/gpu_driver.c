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
