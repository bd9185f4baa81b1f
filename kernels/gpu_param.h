/* gpu_param.h - where one parameter of a GPU kernel lies.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Readers of GPU code, drivers, the adapters and the emulator all describe a kernel's parameters by
 * an array of these, in the order of the kernel's declaration. */
#ifndef TD_KERNELS_GPU_PARAM_H
#define TD_KERNELS_GPU_PARAM_H

#include <stdint.h>

struct td_gpu_param { uint32_t offset, size; }; /* bytes, in the parameter block */

#endif
