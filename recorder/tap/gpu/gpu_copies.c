/* gpu_copies.c - several small copies within the device's memory, in one launch of a kernel of the
 * tap's own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On an H100 a call of the driver costs 5 us, whatever the copy's size up to some kilobytes, and a
 * GEMM needs four copies before it and one after. The kernel is PTX, which the driver compiles when
 * the tap is armed first (and keeps in its cache). Where the driver cannot, or where the kernel
 * fails its trial, copies are made one by one.
 *
 * The driver refuses to copy from memory that is not there; a kernel that reads it ends the
 * server's context. So the driver is asked about each source first: the kernel copies it if it lies
 * within one allocation, else the driver does. */
#include <string.h>
#include <time.h>

#include "recorder/tap/gpu/gpu_copies.h"
#include "recorder/tap/gpu/gpu_gather_ptx.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define BLOCK 256u
#define WIDEST 16u
#define ROW_BYTES (BLOCK * WIDEST)    /* dense bytes are copied as rows of so many, a row a block: a thread reads once */
#define MOST_BLOCKS 128u
/* of one copy: beyond it, the call costs little beside the copy */
#define LARGEST (1u << 20)

static const char ptx[] = TAP_GPU_GATHER_PTX("6.0", "sm_60", "td_gather", "");
static const char waiting_ptx[] =
    TAP_GPU_GATHER_PTX("7.8", "sm_90", "td_gather_waits", TAP_GPU_GATHER_WAITS);

_Static_assert(sizeof(struct tap_gpu_copy) == 48 &&
                   sizeof(struct tap_gpu_copy[TAP_GPU_COPIES]) == 768,
               "as the kernel reads them");

static void *_Atomic kernel;          /* NULL: copies are made one by one */
static void *_Atomic waiting;         /* the same for an early node; NULL: there is none */

/* ---- copying --------------------------------------------------------------------------------- */

bool tap_gpu_copy_rows(uint64_t to, uint64_t from, uint64_t rows, uint64_t row_bytes,
                       uint64_t pitch, void *stream)
{
    struct td_cuda_copy_2d c = {.src_type = TD_CUDA_MEMORY_DEVICE,
                                 .src_device = from,
                                 .src_pitch = pitch,
                                 .dst_type = TD_CUDA_MEMORY_DEVICE,
                                 .dst_device = to,
                                 .dst_pitch = row_bytes,
                                 .width_bytes = row_bytes,
                                 .height = rows};

    if (rows == 1 || pitch == row_bytes)
        return !tap_driver.copy_on_device(to, from, rows * row_bytes, stream);
    return !tap_driver.copy_2d(&c, stream);
}

static uint32_t unit_of(const struct tap_gpu_copy *p)
{
    uint64_t all = p->to | p->from | p->bytes | p->row_bytes | p->pitch;

    return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
}

bool tap_gpu_lies_within(uint64_t from, uint64_t bytes)
{
    uint64_t base;
    size_t n;

    return !tap_driver.address_range(&base, &n, from) && from >= base && bytes <= n &&
           from - base <= n - bytes;
}

static bool launch_kernel(void *function, struct tap_gpu_copies *c, void *stream)
{
    void *params[] = {c->copy};
    bool before = tap_gpu_set_own_calls(true),
         ok =
             !tap_driver.launch(function, c->blocks, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL);

    tap_gpu_set_own_calls(before);
    return ok;
}

bool tap_gpu_copies_launch(struct tap_gpu_copies *c, void *stream)
{
    void *function = atomic_load_explicit(&kernel, memory_order_acquire);
    bool ok = !c->n || launch_kernel(function, c, stream);

    c->n = c->blocks = 0;
    return ok;
}

static void add_piece(struct tap_gpu_copies *c, uint64_t to, uint64_t from, uint64_t rows,
                      uint64_t row_bytes, uint64_t pitch)
{
    const bool dense = rows == 1 || pitch == row_bytes;
    const uint64_t bytes = rows * row_bytes,
                   blocks = dense ? (bytes + ROW_BYTES - 1) / ROW_BYTES : rows;
    struct tap_gpu_copy *p = &c->copy[c->n++];

    *p = (struct tap_gpu_copy){.to = to,
                               .from = from,
                               .bytes = bytes,
                               .pitch = dense ? ROW_BYTES : pitch,
                               .row_bytes = dense ? ROW_BYTES : (uint32_t)row_bytes};
    p->unit = unit_of(p);
    c->blocks += blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
    p->end = c->blocks;
}

bool tap_gpu_copies_add(struct tap_gpu_copies *c, uint64_t to, uint64_t from, uint64_t rows,
                        uint64_t row_bytes, uint64_t pitch, void *stream)
{
    const uint64_t bytes = rows * row_bytes;

    if (!atomic_load_explicit(&kernel, memory_order_acquire) || !bytes || bytes > LARGEST ||
        !tap_gpu_lies_within(from, (rows - 1) * pitch + row_bytes))
        return tap_gpu_copy_rows(to, from, rows, row_bytes, pitch, stream);
    if (c->n == TAP_GPU_COPIES && !tap_gpu_copies_launch(c, stream))
        return false;
    add_piece(c, to, from, rows, row_bytes, pitch);
    return true;
}

/* ---- as a node ------------------------------------------------------------------------------- */

bool tap_gpu_copies_add_to_node(struct tap_gpu_copies *c, uint64_t to, uint64_t from, uint64_t rows,
                                uint64_t row_bytes, uint64_t pitch)
{
    if (!atomic_load_explicit(&kernel, memory_order_acquire) || c->n == TAP_GPU_COPIES || !rows ||
        !row_bytes || row_bytes > UINT32_MAX || !tap_gpu_lies_within(from, (rows - 1) * pitch + row_bytes))
        return false;
    add_piece(c, to, from, rows, row_bytes, pitch);
    return true;
}

bool tap_gpu_copies_may_be_early(void)
{
    return atomic_load_explicit(&waiting, memory_order_acquire) != NULL;
}

void tap_gpu_copies_fill_node(struct tap_gpu_copies *c, struct td_cuda_kernel_node *node,
                              void **params, bool early)
{
    params[0] = c->copy;
    *node = (struct td_cuda_kernel_node){
        .function = atomic_load_explicit(early ? &waiting : &kernel, memory_order_acquire),
        .grid = {c->blocks, 1, 1},
        .block = {BLOCK, 1, 1},
        .params = params};
}

/* ---- opening --------------------------------------------------------------------------------- */

/* bytes of the source; three copies of it, or of parts of it, come behind it */
#define TRY_BYTES 256u
#define TRY_NS 1000000000LL

/* A GPU may be busy, and the tap's thread has others to answer. */
bool tap_gpu_copies_wait_for_trial(const struct tap_gpu_copies_trial *t, uint32_t number)
{
    int64_t until = tap_now() + TRY_NS;

    if (tap_driver.stream_write(t->stream, t->word_address, number, 0))
        return false;
    while (atomic_load_explicit(t->word, memory_order_acquire) != number && tap_now() < until)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return atomic_load_explicit(t->word, memory_order_acquire) == number;
}

/* Copy with all three units and with a pitch, and compare. (Copies of 1 MiB are not tried.)
 *   number : of the trial, by which its bytes differ from those of another */
static bool try_kernel(const struct tap_gpu_copies_trial *t, void *function, uint32_t number)
{
    const uint64_t ring = t->ring;
    const uint8_t *host = t->host;
    void *side = t->stream;
    struct tap_gpu_copies c = {.n = 0};
    uint8_t want[TRY_BYTES];
    uint32_t i, word;

    for (i = 0; i < TRY_BYTES / 4; i++) {
        word = 0x9e3779b1u * (i + number);
        memcpy(want + 4 * i, &word, 4);
        if (tap_driver.stream_write(side, ring + 4 * i, word, 0))
            return false;
    }
    if (!tap_gpu_lies_within(ring, TAP_GPU_TRIAL_BYTES))
        return false;
    add_piece(&c, ring + TRY_BYTES, ring, 1, TRY_BYTES, TRY_BYTES);
    add_piece(&c, ring + 2 * TRY_BYTES, ring + 4, 1, 100, 100);
    add_piece(&c, ring + 3 * TRY_BYTES, ring + 1, 5, 7, 31);
    if (!launch_kernel(function, &c, side) ||
        tap_driver.copy_to_host((void *)(uintptr_t)host, ring, TAP_GPU_TRIAL_BYTES, side) ||
        !tap_gpu_copies_wait_for_trial(t, number))
        return false;
    for (i = 0; i < 5; i++)
        if (memcmp(host + 3 * TRY_BYTES + 7 * i, want + 1 + 31 * i, 7))
            return false;
    return !memcmp(host + TRY_BYTES, want, TRY_BYTES) &&
           !memcmp(host + 2 * TRY_BYTES, want + 4, 100);
}

static bool open_kernel(void *_Atomic *to, const char *text, const char *symbol,
                        const struct tap_gpu_copies_trial *t, uint32_t number)
{
    void *module, *function;

    if (tap_driver.module_load(&module, text) ||
        tap_driver.module_get_function(&function, module, symbol) ||
        !try_kernel(t, function, number))
        return false;
    atomic_store_explicit(to, function, memory_order_release);
    return true;
}

bool tap_gpu_copies_open(const struct tap_gpu_copies_trial *t)
{
    if (!tap_driver.module_load || !tap_driver.module_get_function || !tap_driver.launch ||
        !tap_driver.address_range || !open_kernel(&kernel, ptx, "td_gather", t, 1))
        return false;
    open_kernel(&waiting, waiting_ptx, "td_gather_waits", t, 3);
    return true;
}

void tap_gpu_copies_forget(void)
{
    atomic_store_explicit(&kernel, NULL, memory_order_release);
    atomic_store_explicit(&waiting, NULL, memory_order_release);
}
