/* nvml.h - clocks, temperature and power of an NVIDIA GPU, for those who time on it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * NVML's library comes with the driver and is found by dlopen (libnvidia-ml.so.1, or what TD_NVML_LIBRARY names). Functions and numbers: NVML API
 * reference (nvml.h of CUDA 13.0), and pynvml's, which are the same. Never a reason to fail: what cannot be read is said in words. */
#ifndef TD_KERNELS_GPU_NVML_H
#define TD_KERNELS_GPU_NVML_H

#include <stddef.h>
#include <stdint.h>

/* -1: not known. reasons: what holds the clocks down, bits of nvmlClocksEventReasons. */
struct td_gpu_condition { int sm_mhz, mem_mhz, temp_c, power_mw; int64_t reasons; };

struct td_nvml;

/* bus_id: "00000000:1b:00.0". NULL: nothing can be read, and why says so. */
struct td_nvml *td_nvml_open(const char *bus_id, char *why, size_t size);
void td_nvml_read(struct td_nvml *n, struct td_gpu_condition *out);
void td_nvml_close(struct td_nvml *n); /* NULL is allowed */

#endif
