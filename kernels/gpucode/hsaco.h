/* hsaco.h - AMD's GPU code: bundles of code objects, and the kernels of a code object.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Source: LLVM's ClangOffloadBundler ("Bundled Code Object Format": magic, u64 count, per entry u64
 * offset, size, id length, id) and AMDGPUUsage (note 32 of owner AMDGPU, a MessagePack map with
 * amdhsa.kernels and amdhsa.target, code object version 3 and later). */
#ifndef TD_KERNELS_GPUCODE_HSACO_H
#define TD_KERNELS_GPUCODE_HSACO_H

#include "kernels/gpucode/elf.h"
#include "kernels/gpucode/kernel_list.h"

#define TD_HSACO_ARCH 64           /* "gfx90a:sramecc+:xnack-" with its NUL */
#define TD_HSACO_MAX_ENTRIES 256   /* of one bundle */

struct td_hsaco_bundle { const uint8_t *data; size_t n; };     /* header included */
struct td_hsaco_entry { char arch[TD_HSACO_ARCH]; const uint8_t *data; size_t n; };

bool td_hsaco_is_bundle(const void *data, size_t n);
/* The next bundle at or after *at (the linker leaves zeros between them); *at moves behind it. 1: filled;
 * 0: no more; TD_ETRUNCATED, TD_ECORRUPT; TD_EUNSUPPORTED: a compressed bundle ("CCOB"). */
int td_hsaco_bundle_next(const uint8_t *data, size_t n, size_t *at, struct td_hsaco_bundle *out, struct td_error *err);
/* Entry i of a bundle: 1: filled; 0: it is the host's or empty; < 0: there is none, or it is broken. */
int td_hsaco_entry_at(const struct td_hsaco_bundle *b, uint64_t i, struct td_hsaco_entry *out, struct td_error *err);
uint64_t td_hsaco_entry_count(const struct td_hsaco_bundle *b);

/* Append the kernels of a code object and fill in the architecture it was made for ("": not known).
 * TD_EUNSUPPORTED: it has no such note. */
int td_hsaco_kernels(const struct td_elf *elf, struct td_gpu_kernel_list *out, char arch[TD_HSACO_ARCH], struct td_error *err);
/* The same from the note's bytes. */
int td_hsaco_metadata(const void *note, size_t n, struct td_gpu_kernel_list *out, char arch[TD_HSACO_ARCH], struct td_error *err);
/* Does code for `arch` run on the architecture `device`? The processor must be the same, and the device
 * must have every feature that the code asks for (xnack+). */
bool td_hsaco_runs(const char *arch, const char *device);

#endif
