/* ggml_data.h - the records of tests/unit/data/ggml.bin (gguf-py and llama.cpp, data/ggml_make.py) gemm.bin (torch, gemm_make.py),
 * moe.bin (numpy, moe_make.py) and scaled.bin (numpy, scaled_make.py).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_KERNELS_OPS_GGML_DATA_H
#define TD_TESTS_UNIT_KERNELS_OPS_GGML_DATA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GGML_ARRAYS 13
struct ggml_record {
    char name[17];
    int64_t n;
    const void *array[GGML_ARRAYS]; /* aligned to 8 */
    size_t size[GGML_ARRAYS];
};

/* The whole file in memory, to be freed; NULL: it cannot be read. */
static inline char *ggml_data_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *all = malloc(1 << 20);

    if (!f || !all) {
        free(all);
        return NULL;
    }
    *size = fread(all, 1, 1 << 20, f);
    fclose(f);
    return all;
}

/* The record at *at, which moves on. 0: the end. */
static inline int ggml_data_next(const char *all, size_t size, size_t *at, struct ggml_record *r)
{
    memset(r, 0, sizeof *r);
    if (*at + 24 > size)
        return 0;
    memcpy(r->name, all + *at, 16);
    memcpy(&r->n, all + *at + 16, 8);
    *at += 24;
    for (int64_t i = 0; i < r->n && i < GGML_ARRAYS; i++) {
        int64_t bytes;

        memcpy(&bytes, all + *at, 8);
        r->array[i] = all + *at + 8;
        r->size[i] = (size_t)bytes;
        *at += 8 + ((size_t)bytes + 7) / 8 * 8;
    }
    return *at <= size;
}

/* The record of that name; fails loudly when it is not there. */
static inline struct ggml_record ggml_data_find(const char *all, size_t size, const char *name)
{
    struct ggml_record r;
    size_t at = 0;

    while (ggml_data_next(all, size, &at, &r))
        if (!strcmp(r.name, name))
            return r;
    fprintf(stderr, "the data holds no %s\n", name);
    abort();
}

#endif
