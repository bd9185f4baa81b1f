/* jit.c - the fake driver's cache of compiled PTX, by the rules of the CUDA C++ Programming Guide:
 * it lies in CUDA_CACHE_PATH, else ~/.nv/ComputeCache; CUDA_CACHE_DISABLE=1 turns it off. Nothing
 * is compiled: an empty file stands for the code.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/helpers/fake_cuda/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if a fatbin container holds PTX alone. An entry is {u16 kind, u16, u32 bytes of its header,
 * u64 bytes of its payload}; kind 1 is PTX. */
static bool is_ptx(const uint8_t *image, size_t bytes)
{
    uint16_t header, kind;
    uint32_t entry;
    uint64_t payload;
    size_t at;

    memcpy(&header, image + 6, sizeof header);
    for (at = header; at + 16 <= bytes; at += entry + payload) {
        memcpy(&kind, image + at, sizeof kind);
        memcpy(&entry, image + at + 4, sizeof entry);
        memcpy(&payload, image + at + 8, sizeof payload);
        if (kind != 1 || entry + payload == 0)
            return false;
    }
    return at > header;
}

static bool in_cache(uint64_t key)
{
    const char *off = getenv("CUDA_CACHE_DISABLE"), *path = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
    char file[4096];
    FILE *f;

    if ((off && !strcmp(off, "1")) || (!path && !home))
        return false;
    if (path)
        snprintf(file, sizeof file, "%s/%016llx", path, (unsigned long long)key);
    else
        snprintf(file, sizeof file, "%s/.nv/ComputeCache/%016llx", home, (unsigned long long)key);
    if (!access(file, R_OK))
        return true;
    if ((f = fopen(file, "w")))
        fclose(f);
    return false;
}

void jit_load(const void *image, size_t bytes, bool fatbin)
{
    const char *log = getenv("TD_FAKE_CUDA_COMPILED");
    uint64_t key = 14695981039346656037u ^ (uint64_t)fake.arch;
    FILE *f;

    if (!fatbin || !is_ptx(image, bytes))
        return;
    for (size_t i = 0; i < bytes; i++)
        key = (key ^ ((const uint8_t *)image)[i]) * 1099511628211u;
    if (in_cache(key) || !log || !(f = fopen(log, "a")))
        return;
    fprintf(f, "%d %016llx\n", (int)getpid(), (unsigned long long)key);
    fclose(f);
}
