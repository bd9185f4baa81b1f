/* gpu_times.c - how long the GPU was at work in each kernel, and whether the tap reads that kernel.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/mman.h>

#include "recorder/tap/gpu/gpu_kernels.h"
#include "recorder/tap/gpu/gpu_times.h"

#define MOST_NAME 65536u              /* of a name, bytes that are looked at */

static struct tap_gpu_times *table;

/* ---- life ------------------------------------------------------------------------------------ */

struct tap_gpu_times *tap_gpu_times_new(void)
{
    void *p;

    tap_gpu_times_drop();
    p = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    table = p == MAP_FAILED ? NULL : p;
    return table;
}

struct tap_gpu_times *tap_gpu_times(void)
{
    return table;
}

void tap_gpu_times_drop(void)
{
    if (table)
        munmap(table, sizeof *table);
    table = NULL;
}

void tap_gpu_times_forget(void)
{
    table = NULL;
}

/* ---- sums ------------------------------------------------------------------------------------ */

uint64_t tap_gpu_symbol_hash(const char *symbol)
{
    uint64_t h = 0xcbf29ce484222325u;
    unsigned i;

    for (i = 0; i < MOST_NAME && symbol[i]; i++)
        h = (h ^ (unsigned char)symbol[i]) * 0x100000001b3u;
    return h ? h : 1;
}

static struct tap_gpu_time *find(struct tap_gpu_times *t, uint64_t hash)
{
    unsigned i;

    for (i = 0; i < t->n && t->at[i].hash != hash; i++)
        ;
    return i < t->n ? &t->at[i] : NULL;
}

/* The kernel's place, made if need be. */
static struct tap_gpu_time *place_of(struct tap_gpu_times *t, const char *symbol)
{
    uint64_t hash = symbol && *symbol ? tap_gpu_symbol_hash(symbol) : 0;
    struct tap_gpu_time *k = hash ? find(t, hash) : &t->rest;

    if (k || t->n == TAP_GPU_TIMES)
        return k ? k : &t->rest;
    k = &t->at[t->n++];
    k->hash = hash;
    snprintf(k->symbol, sizeof k->symbol, "%s", symbol);
    return k;
}

void tap_gpu_times_add(struct tap_gpu_times *t, const char *symbol, uint64_t start, uint64_t end)
{
    struct tap_gpu_time *k;

    if (!start || end <= start || end - start > t->most_ns) {
        t->lost++;
        return;
    }
    k = place_of(t, symbol);
    k->n++;
    k->ns += end - start;
    t->launches++;
    t->ns += end - start;
}

/* ---- who launches them ----------------------------------------------------------------------- */

void tap_gpu_times_note(struct tap_gpu_times *t, uint64_t hash, bool recorded)
{
    struct tap_gpu_time *k = find(t, hash);

    if (k && recorded)
        k->recorded = true;
    else if (k)
        k->other = true;
}

void tap_gpu_times_doubt(struct tap_gpu_times *t)
{
    unsigned i;

    for (i = 0; i < t->n; i++)
        t->at[i].other |= t->at[i].recorded;
}

enum tap_seen tap_gpu_times_seen(const struct tap_gpu_time *k)
{
    return k->recorded == k->other ? TAP_SEEN_UNKNOWN
           : k->recorded           ? TAP_SEEN_RECORDED
                                   : TAP_SEEN_NOT;
}

static void note_table(struct tap_gpu_times *t,
                       struct tap_gpu_kernel *(*at)(unsigned i, bool *used))
{
    const struct tap_gpu_kernel *k;
    bool used;
    unsigned i;

    for (i = 0; (k = at(i, &used)); i++) {
        if (!used || !k->hash)
            continue;
        if (atomic_load_explicit(&k->in_library_call, memory_order_relaxed))
            tap_gpu_times_note(t, k->hash, true);
        if (atomic_load_explicit(&k->n, memory_order_relaxed))
            tap_gpu_times_note(t, k->hash, k->adapter != NULL);
    }
}

void tap_gpu_times_note_launched(struct tap_gpu_times *t)
{
    note_table(t, tap_gpu_kernel_at);
    note_table(t, tap_gpu_graph_kernel_at);
}
