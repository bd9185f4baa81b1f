/* cubin.h - the kernels of a cubin: NVIDIA's ELF for one architecture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A kernel is a function symbol with bit 0x10 in st_other. Sections belong to it by their sh_info, which
 * is the section of its code:
 *     .nv.info.<kernel>     attributes {u8 format, u8 code, u16 value or length, bytes}: 0x17 and 0x45 a
 *                           parameter (ordinal, offset, size), 0x19 bytes of the parameter block, 0x05
 *                           most threads, 0x10 required block, 0x3d cluster dimensions
 *     .nv.shared.<kernel>   its size is that of static shared memory; from sm_90 on with 1 KiB for the
 *                           system in front
 * and .nv.info of the file has the registers (0x2f: symbol, count). NVIDIA publishes no description: codes
 * and fields were read from cuobjdump's output of files made by nvcc 13.0 and ptxas 12.8, beside their
 * bytes. */
#ifndef TD_KERNELS_GPUCODE_CUBIN_H
#define TD_KERNELS_GPUCODE_CUBIN_H

#include "kernels/gpucode/elf.h"
#include "kernels/gpucode/kernel_list.h"

struct td_cubin_facts {
    int sm;                        /* 90 */
    char variant;                  /* 'a' or 0; an 'f' cannot be told from none */
    bool relocatable;              /* -rdc=true, before its link, so it cannot be loaded */
    uint64_t global_bytes, constant_bytes; /* __device__ and __constant__ variables, initialised or not */
};

/* Read the header alone; cheap. */
int td_cubin_facts_read(const struct td_elf *elf, struct td_cubin_facts *out, struct td_error *err);
/* Append the kernels. sm : the program's. TD_ECORRUPT, TD_ETRUNCATED, TD_ELIMIT, TD_ENOMEM: the list then
 * holds the kernels before the fault. */
int td_cubin_kernels(const struct td_elf *elf, int sm, struct td_gpu_kernel_list *out, struct td_error *err);

#endif
