/* hip_others.c - how the parameters of kernels lie that no adapter knows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server loads thousands of kernels, so names are not kept. What the table does not use of its
 * memory is never touched. */
#include "recorder/tap/hip/hip_others.h"

#include <stdatomic.h>

#include "recorder/tap/core/tap_hash.h"
#include "recorder/tap/hip/hip_code.h"

#define PLACES    32768u
#define TRIES     32u
#define FNV_PRIME 0x100000001b3u

static struct other {
    _Atomic uint64_t key; /* 0: free. Set last */
    uint64_t check;       /* the name's other hash */
    _Atomic int n;        /* number of params; or TAP_HIP_UNSURE */
    struct {
        uint16_t offset, size;
    } param[TD_GPU_PARAMS];
} table[PLACES];

static uint64_t hash(const char *s, uint64_t h)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * FNV_PRIME;
    return tap_mix(h) | 1;
}

/* The place of that name, or the one where it would go; NULL: there is none. */
static struct other *place_of(const char *symbol, uint64_t *key, uint64_t *check)
{
    unsigned i;

    *key = hash(symbol, 0xcbf29ce484222325u), *check = hash(symbol, 0x9ae16a3b2f90404fu);
    for (i = 0; i < TRIES; i++) {
        struct other *o = &table[(*key + i) % PLACES];
        const uint64_t there = atomic_load_explicit(&o->key, memory_order_acquire);

        if (!there || (there == *key && o->check == *check))
            return o;
    }
    return NULL;
}

int tap_hip_others_params(const char *symbol, struct td_gpu_param params[TD_GPU_PARAMS])
{
    uint64_t key, check;
    const struct other *o = place_of(symbol, &key, &check);
    int i, n;

    if (!o || !atomic_load_explicit(&o->key, memory_order_acquire))
        return 0;
    n = atomic_load_explicit(&o->n, memory_order_relaxed);
    for (i = 0; i < n; i++)
        params[i] = (struct td_gpu_param){o->param[i].offset, o->param[i].size};
    return n;
}

static bool is_equal(const struct other *o, const struct td_gpu_param *params, int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (o->param[i].offset != params[i].offset || o->param[i].size != params[i].size)
            return false;
    return atomic_load(&o->n) == n;
}

void tap_hip_others_add(const char *symbol, const struct td_gpu_param *params, int n)
{
    uint64_t key, check;
    struct other *o = place_of(symbol, &key, &check);
    int i;

    for (i = 0; i < n; i++)
        if (params[i].offset > UINT16_MAX || params[i].size > UINT16_MAX)
            return;
    if (!o || n < 1 || n > TD_GPU_PARAMS)
        return;
    if (atomic_load(&o->key)) {
        if (!is_equal(o, params, n))
            atomic_store(&o->n, TAP_HIP_UNSURE);
        return;
    }
    o->check = check;
    for (i = 0; i < n; i++)
        o->param[i].offset = (uint16_t)params[i].offset,
        o->param[i].size = (uint16_t)params[i].size;
    atomic_store(&o->n, n);
    atomic_store_explicit(&o->key, key, memory_order_release);
}
