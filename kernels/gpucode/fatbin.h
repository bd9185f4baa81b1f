/* fatbin.h - NVIDIA's fat binaries: a container holds one program for several architectures.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A container is {u32 magic BA55ED50, u16 version 1, u16 header bytes 16, u64 bytes that follow} and then
 * entries, each
 *     +0   u16 kind: 1 PTX, 2 cubin         +2   u16 version
 *     +4   u32 bytes of this header (64, 80, 112)
 *     +8   u64 bytes of the payload, padded
 *     +16  u32 compressed bytes, or 0       +24  u16 minor, u16 major
 *     +28  u32 architecture, 90             +40  u64 flags
 *     +56  u64 bytes when unpacked, or 0
 * In .nv_fatbin of a host library containers follow one another, with zeros between them. NVIDIA
 * publishes no description: this was seen in files of nvcc 13.0 (--compress-mode none, speed: LZ4,
 * balance and size: zstd; sm_90a, sm_100f) and checked against cuobjdump 13.1. */
#ifndef TD_KERNELS_GPUCODE_FATBIN_H
#define TD_KERNELS_GPUCODE_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_FATBIN_MAX_CODE ((uint64_t)512 << 20)   /* bytes of one program, unpacked */

enum td_packing { TD_PACKING_NONE = 0, TD_PACKING_LZ4, TD_PACKING_ZSTD, TD_PACKING_OTHER };

struct td_fatbin_container { const uint8_t *data; size_t n; };  /* header included: what cuModuleLoadData takes */

struct td_fatbin_entry {
    int kind;                      /* 1 PTX, 2 cubin, others exist (LTO) */
    int sm;                        /* 90 */
    char variant;                  /* 'a', 'f' (sm_90a, sm_100f), 0 */
    enum td_packing packing;
    const uint8_t *payload; size_t payload_bytes;
    uint64_t bytes;                /* unpacked */
};

bool td_fatbin_is(const void *data, size_t n);
/* The next container at or after *at (zeros are skipped); *at moves behind it. 1: filled; 0: no more;
 * TD_ETRUNCATED, TD_ECORRUPT. */
int td_fatbin_next(const uint8_t *data, size_t n, size_t *at, struct td_fatbin_container *out, struct td_error *err);
/* The next entry of a container; *at starts at 0. Returns as td_fatbin_next. */
int td_fatbin_entry_next(const struct td_fatbin_container *c, size_t *at, struct td_fatbin_entry *out, struct td_error *err);
/* Unpack into a new block of e->bytes, which the caller frees; a raw entry is copied. TD_ECORRUPT,
 * TD_ENOMEM; TD_ELIMIT: it claims more bytes than its packing can give; TD_EUNSUPPORTED: this version does
 * not know the packing. */
int td_fatbin_unpack(const struct td_fatbin_entry *e, uint8_t **out, struct td_error *err);

#endif
