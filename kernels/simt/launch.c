/* launch.c - a launch: its sizes, its shared memory, its blocks in a random order.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Static __shared__ variables lie in a section of their own (simt.h), so that they can be poisoned before
 * each block. The limits of a launch are those of the CUDA programming guide for compute capability 9.0. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/simt/block.h"
#include "kernels/simt/fibre.h"

#define MAX_SHARED 232448u           /* 227 KiB */
#define PAGE 4096u
#define MAX_BLOCKS (1ull << 24)      /* an emulated launch of more would take hours */

extern unsigned char __start_td_simt_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_td_simt_shared[] __attribute__((weak, visibility("hidden")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *shared_end;    /* of the dynamic shared memory: a guard page follows */
static size_t shared_bytes_now;
static uint32_t *block_order;
static size_t block_order_room;

static int check_sizes(const struct td_simt_run *run, size_t shared_bytes, struct td_error *err)
{
    const struct td_simt_dim *g = &run->grid, *b = &run->block;
    const char *name = run->kernel->symbol;

    if (run->warp != 32 && run->warp != 64)
        return td_fail(err, TD_EINVAL, "%s: a warp of %d threads; there are 32 (CUDA) and 64 (AMD)", name, run->warp);
    if (!b->x || !b->y || !b->z || b->x > 1024 || b->y > 1024 || b->z > 64 || (uint64_t)b->x * b->y * b->z > TD_SIMT_MAX_THREADS)
        return td_fail(err, TD_EINVAL, "%s: a block of %u x %u x %u threads; a GPU takes 1 to 1024", name, b->x, b->y, b->z);
    if (!g->x || !g->y || !g->z || g->x > INT32_MAX || g->y > 65535 || g->z > 65535)
        return td_fail(
            err, TD_EINVAL,
            "%s: a grid of %u x %u x %u blocks; a GPU takes 1 to 2147483647 x 65535 x 65535", name,
            g->x, g->y, g->z);
    if ((uint64_t)g->x * g->y > MAX_BLOCKS || (uint64_t)g->x * g->y * g->z > MAX_BLOCKS)
        return td_fail(err, TD_EINVAL, "%s: more blocks than can be emulated (%llu)", name, MAX_BLOCKS);
    if (shared_bytes > MAX_SHARED)
        return td_fail(err, TD_EINVAL,
                       "%s: %zu bytes of dynamic shared memory; a GPU has at most %u", name,
                       shared_bytes, MAX_SHARED);
    return TD_OK;
}

/* ---- shared memory --------------------------------------------------------------------------- */

static int map_shared(struct td_error *err)
{
    const size_t size = (MAX_SHARED + PAGE - 1) / PAGE * PAGE;
    unsigned char *p;

    if (shared_end)
        return TD_OK;
    p = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return td_fail(err, TD_ENOMEM, "no memory for the shared memory of a block: %s", strerror(errno));
    if (mprotect(p + size, PAGE, PROT_NONE)) {
        td_fail(err, TD_ENOMEM, "no guard page behind the shared memory of a block: %s", strerror(errno));
        munmap(p, size + PAGE);
        return TD_ENOMEM;
    }
    shared_end = p + size;
    return TD_OK;
}

void *td_simt_dynamic_shared(void)
{
    return shared_end - (shared_bytes_now + 15) / 16 * 16;
}

/* Fill shared memory with what an earlier block might have left: NaN throughout, or one small number. */
static void poison_shared(uint64_t seed)
{
    const size_t dynamic = (shared_bytes_now + 15) / 16 * 16;
    const int byte = seed & 2 ? 0x3c : 0xff;

    memset(shared_end - dynamic, byte, dynamic);
    if (__start_td_simt_shared)
        memset(__start_td_simt_shared, byte, (size_t)(__stop_td_simt_shared - __start_td_simt_shared));
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static int shuffle_blocks(struct td_simt_run *run, uint32_t n, struct td_error *err)
{
    if (n > block_order_room) {
        uint32_t *more = realloc(block_order, n * sizeof *more);

        if (!more)
            return td_fail(err, TD_ENOMEM, "out of memory for %u blocks", n);
        block_order = more;
        block_order_room = n;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t place = td_simt_random(run, i + 1);

        block_order[i] = block_order[place];
        block_order[place] = i;
    }
    return TD_OK;
}

static int run_blocks(struct td_simt_run *run, uint64_t seed, struct td_error *err)
{
    const struct td_simt_dim *g = &run->grid;
    const uint32_t n = g->x * g->y * g->z;
    int rc = shuffle_blocks(run, n, err);

    for (uint32_t i = 0; !rc && i < n; i++) {
        const uint32_t b = block_order[i];

        poison_shared(seed);
        rc = td_simt_block_run(run, (struct td_simt_dim){b % g->x, b / g->x % g->y, b / g->x / g->y}, err);
    }
    return rc;
}

int td_simt_launch_kernel(const struct td_simt_kernel *kernel, struct td_simt_dim grid,
                          struct td_simt_dim block, size_t shared_bytes, void *const *params,
                          uint64_t seed, int warp, struct td_error *err)
{
    struct td_simt_run run = {kernel, params, grid, block, 0, warp, seed};
    int rc = check_sizes(&run, shared_bytes, err);

    if (rc)
        return rc;
    run.n_threads = (int)(block.x * block.y * block.z);
    pthread_mutex_lock(&lock);
    shared_bytes_now = shared_bytes;
    rc = td_fibre_reserve(run.n_threads, err);
    if (!rc)
        rc = map_shared(err);
    if (!rc)
        rc = run_blocks(&run, seed, err);
    pthread_mutex_unlock(&lock);
    return rc;
}

int td_simt_launch(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block,
                   size_t shared_bytes, void *const *params, uint64_t seed, int warp,
                   struct td_error *err)
{
    const struct td_simt_kernel *kernel = td_simt_kernel_find(symbol);

    if (!kernel)
        return td_fail(err, TD_ENOTFOUND, "the emulator has no kernel %s; it has those of our own .cu files", symbol);
    return td_simt_launch_kernel(kernel, grid, block, shared_bytes, params, seed, warp, err);
}

/* Runs at exit, or when the library that holds this file is unloaded. */
__attribute__((destructor)) static void release(void)
{
    const size_t size = (MAX_SHARED + PAGE - 1) / PAGE * PAGE;

    td_fibre_release();
    if (shared_end)
        munmap(shared_end - size, size + PAGE);
    shared_end = NULL;
    free(block_order);
    block_order = NULL;
    block_order_room = 0;
}

/* ---- TD_LAUNCH ------------------------------------------------------------------------------- */

static struct { uint64_t seed; int warp; struct td_error err; } noted = {0, 32, {0}};

void td_simt_choose(uint64_t seed, int warp)
{
    noted.seed = seed;
    noted.warp = warp;
}

void td_simt_launch_note(const struct td_simt_kernel *kernel, struct td_simt_dim grid,
                         struct td_simt_dim block, size_t shared_bytes, void *const *params)
{
    td_simt_launch_kernel(kernel, grid, block, shared_bytes, params, noted.seed, noted.warp, &noted.err);
}

int td_simt_take_error(struct td_error *err)
{
    const int rc = noted.err.code;

    if (rc)
        td_fail(err, rc, "%s", noted.err.msg);
    td_error_clear(&noted.err);
    return rc;
}
