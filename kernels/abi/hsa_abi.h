/* hsa_abi.h - the part of the HSA runtime's binary interface (below HIP) that the tap uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: hsa.h 1.1 (Debian's libhsa-runtime-dev; tests/e2e/063-tap-hip-abi compares). An
 * hsa_status_t is an int. */
#ifndef TD_KERNELS_ABI_HSA_ABI_H
#define TD_KERNELS_ABI_HSA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TD_HSA_ERROR = 0x1000 };        /* HSA_STATUS_ERROR */

/* hsa_code_object_reader_create_from_memory: HIP loads every code object through it. */
#define TD_HSA_READER_ARGUMENTS (const void *object, size_t bytes, uint64_t *reader)

#endif
