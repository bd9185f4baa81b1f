/* nvml.h - clocks, temperature and power of an NVIDIA GPU, to be printed beside timings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NVML's library comes with the driver and is opened by dlopen (libnvidia-ml.so.1, or the path in
 * TD_NVML_LIBRARY). Source of functions and numbers: the NVML API reference (nvml.h of CUDA 13.0) and
 * pynvml. A missing library or value is never an error: the caller gets a sentence or -1. */
#ifndef TD_KERNELS_GPU_NVML_H
#define TD_KERNELS_GPU_NVML_H

#include <stddef.h>
#include <stdint.h>

/* -1: not known. reasons: what holds the clocks down, bits of nvmlClocksEventReasons. */
struct td_gpu_condition { int sm_mhz, mem_mhz, temp_c, power_mw; int64_t reasons; };

struct td_nvml;

/* bus_id : "00000000:1b:00.0". NULL: nothing can be read; why[size] gets the reason. */
struct td_nvml *td_nvml_open(const char *bus_id, char *why, size_t size);
void td_nvml_read(struct td_nvml *n, struct td_gpu_condition *out);
void td_nvml_close(struct td_nvml *n); /* NULL is allowed */

#endif
