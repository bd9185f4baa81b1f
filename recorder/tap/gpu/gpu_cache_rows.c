/* gpu_cache_rows.c - copy the rows of a cache that a list on the device names.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The kernel reads nothing beyond the cache: a slot that the cache does not have gives zeros,
 * whatever the list holds. */
#include "recorder/tap/gpu/gpu_cache_rows.h"

#include <stdatomic.h>
#include <string.h>

#include "recorder/tap/gpu/gpu_threads.h"

#define BLOCK       256u
#define MOST_BLOCKS 1024u

struct copy {                             /* as the kernel reads it */
    uint64_t to, from, list, rows, slots; /* slots: of the cache */
    uint64_t block;                       /* slots of a block */
    uint64_t block_bytes, slot_bytes;     /* distance of blocks, and of the slots of one */
    uint64_t piece_pitch;
    uint32_t piece_bytes, row_bytes, unit, none;
};

/* Parameter: a struct copy. Grid: any. Block x copies rows x, x + grid.x ... */
static const char ptx[] = ".version 6.0\n"
                          ".target sm_60\n"
                          ".address_size 64\n"
                          ".visible .entry td_cache_rows (\n"
                          "    .param .align 8 .b8 copy[88]\n"
                          ") {\n"
                          "    .reg .pred %done, %none;\n"
                          "    .reg .b16 %byte;\n"
                          "    .reg .b32 %x, %grid, %threads, %i, %by, %piece_bytes, %row_bytes, "
                          "%unit, %piece, %rest, %a, %b, %c, %d;\n"
                          "    .reg .b64 %to, %from, %list, %rows, %slots, %block, %block_bytes, "
                          "%slot_bytes, %pitch, %row, %step;\n"
                          "    .reg .b64 %slot, %at, %base, %target, %s, %t, %width;\n"
                          "    ld.param.u64 %to, [copy];\n"
                          "    ld.param.u64 %from, [copy+8];\n"
                          "    ld.param.u64 %list, [copy+16];\n"
                          "    ld.param.u64 %rows, [copy+24];\n"
                          "    ld.param.u64 %slots, [copy+32];\n"
                          "    ld.param.u64 %block, [copy+40];\n"
                          "    ld.param.u64 %block_bytes, [copy+48];\n"
                          "    ld.param.u64 %slot_bytes, [copy+56];\n"
                          "    ld.param.u64 %pitch, [copy+64];\n"
                          "    ld.param.u32 %piece_bytes, [copy+72];\n"
                          "    ld.param.u32 %row_bytes, [copy+76];\n"
                          "    ld.param.u32 %unit, [copy+80];\n"
                          "    mov.u32 %x, %ctaid.x;\n"
                          "    mov.u32 %grid, %nctaid.x;\n"
                          "    mov.u32 %threads, %ntid.x;\n"
                          "    cvt.u64.u32 %row, %x;\n"
                          "    cvt.u64.u32 %step, %grid;\n"
                          "    cvt.u64.u32 %width, %row_bytes;\n"
                          "    mul.lo.u32 %by, %threads, %unit;\n"
                          "next_row:\n"
                          "    setp.ge.u64 %done, %row, %rows;\n"
                          "    @%done bra end;\n"
                          "    shl.b64 %at, %row, 3;\n"
                          "    add.s64 %at, %at, %list;\n"
                          "    ld.global.u64 %slot, [%at];\n"
                          "    setp.ge.u64 %none, %slot, %slots;\n" /* -1 is a large number here */
                          "    div.u64 %at, %slot, %block;\n"
                          "    mul.lo.u64 %base, %at, %block_bytes;\n"
                          "    rem.u64 %at, %slot, %block;\n"
                          "    mul.lo.u64 %at, %at, %slot_bytes;\n"
                          "    add.s64 %base, %base, %at;\n"
                          "    add.s64 %base, %base, %from;\n"
                          "    mul.lo.u64 %target, %row, %width;\n"
                          "    add.s64 %target, %target, %to;\n"
                          "    mov.u32 %i, %tid.x;\n"
                          "    mul.lo.u32 %i, %i, %unit;\n"
                          "next:\n"
                          "    setp.ge.u32 %done, %i, %row_bytes;\n"
                          "    @%done bra row_done;\n"
                          "    div.u32 %piece, %i, %piece_bytes;\n"
                          "    rem.u32 %rest, %i, %piece_bytes;\n"
                          "    cvt.u64.u32 %s, %piece;\n"
                          "    mul.lo.u64 %s, %s, %pitch;\n"
                          "    cvt.u64.u32 %at, %rest;\n"
                          "    add.s64 %s, %s, %at;\n"
                          "    add.s64 %s, %s, %base;\n"
                          "    cvt.u64.u32 %t, %i;\n"
                          "    add.s64 %t, %t, %target;\n"
                          "    mov.u32 %a, 0;\n"
                          "    mov.u32 %b, 0;\n"
                          "    mov.u32 %c, 0;\n"
                          "    mov.u32 %d, 0;\n"
                          "    mov.u16 %byte, 0;\n"
                          "    setp.eq.u32 %done, %unit, 16;\n"
                          "    @%done bra sixteen;\n"
                          "    setp.eq.u32 %done, %unit, 4;\n"
                          "    @%done bra four;\n"
                          "    @!%none ld.global.u8 %byte, [%s];\n"
                          "    st.global.u8 [%t], %byte;\n"
                          "    bra copied;\n"
                          "four:\n"
                          "    @!%none ld.global.u32 %a, [%s];\n"
                          "    st.global.u32 [%t], %a;\n"
                          "    bra copied;\n"
                          "sixteen:\n"
                          "    @!%none ld.global.v4.u32 {%a, %b, %c, %d}, [%s];\n"
                          "    st.global.v4.u32 [%t], {%a, %b, %c, %d};\n"
                          "copied:\n"
                          "    add.u32 %i, %i, %by;\n"
                          "    bra next;\n"
                          "row_done:\n"
                          "    add.u64 %row, %row, %step;\n"
                          "    bra next_row;\n"
                          "end:\n"
                          "    ret;\n"
                          "}\n";

_Static_assert(sizeof(struct copy) == 88, "as the kernel reads it");

static void *_Atomic kernel; /* NULL: it is not to be had */

bool tap_gpu_cache_rows_ready(void)
{
    return atomic_load_explicit(&kernel, memory_order_acquire);
}

/* ---- copying --------------------------------------------------------------------------------- */

static uint32_t unit_of(const struct copy *c)
{
    const uint64_t all = c->to | c->from | c->block_bytes | c->slot_bytes | c->piece_pitch |
                         c->piece_bytes | c->row_bytes;

    return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
}

/* Bytes from the cache's first byte to behind the last one that a row may have. False: they are too
 * many to be true. */
static bool span_of(const struct copy *c, uint64_t *span)
{
    const uint64_t blocks = c->slots / c->block, pieces = c->row_bytes / c->piece_bytes;
    uint64_t a, b, d;

    return !__builtin_mul_overflow(blocks - 1, c->block_bytes, &a) &&
           !__builtin_mul_overflow(c->block - 1, c->slot_bytes, &b) &&
           !__builtin_mul_overflow(pieces - 1, c->piece_pitch, &d) &&
           !__builtin_add_overflow(a, b, &a) && !__builtin_add_overflow(a, d, &a) &&
           !__builtin_add_overflow(a, c->piece_bytes, span);
}

static bool launch(struct copy *c, void *stream)
{
    void *function = atomic_load_explicit(&kernel, memory_order_acquire), *params[] = {c};
    const unsigned blocks = c->rows < MOST_BLOCKS ? (unsigned)c->rows : MOST_BLOCKS;
    bool before, ok;

    if (!function)
        return false;
    before = tap_gpu_set_own_calls(true);
    ok = !tap_driver.launch(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL);
    tap_gpu_set_own_calls(before);
    return ok;
}

bool tap_gpu_cache_rows_copy(uint64_t to, const struct td_gpu_cache *cache, uint64_t list,
                             uint64_t rows, uint64_t row_bytes, void *stream)
{
    struct copy c = {.to = to,
                     .from = cache->address,
                     .list = list,
                     .rows = rows,
                     .slots = (uint64_t)cache->slots,
                     .block = (uint64_t)cache->block,
                     .block_bytes = cache->block_bytes,
                     .slot_bytes = cache->slot_bytes,
                     .piece_pitch = cache->piece_pitch,
                     .piece_bytes = (uint32_t)cache->piece_bytes,
                     .row_bytes = (uint32_t)row_bytes};
    uint64_t span;

    if (!rows || !row_bytes || row_bytes > INT32_MAX || !cache->piece_bytes ||
        row_bytes % cache->piece_bytes || cache->block < 1 || cache->slots < cache->block ||
        !span_of(&c, &span) || !tap_gpu_lies_within(cache->address, span))
        return false;
    c.unit = unit_of(&c);
    return launch(&c, stream);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A cache of four blocks of three slots; rows of two pieces. skew: of the first byte, so that it is
 * copied in units of 16, of 4 and of 1. */
struct trial {
    uint64_t skew, block_bytes, slot_bytes, piece_bytes, piece_pitch;
};
enum { ROWS = 5, SOURCE = 288, LIST = SOURCE, OUT = 336, EACH = 160, BLOCKS = 4, SLOTS = 3 };
static const struct trial trials[] = {{0, 64, 16, 16, 48}, {4, 60, 8, 4, 28}, {1, 61, 7, 3, 25}};
static const int64_t list[ROWS] = {7, -1, 0, 11, 12}; /* 12: behind the last */

static struct td_gpu_cache cache_of(const struct trial *t, uint64_t ring)
{
    return (struct td_gpu_cache){.address = ring + t->skew,
                                 .slots = BLOCKS * SLOTS,
                                 .block = SLOTS,
                                 .block_bytes = t->block_bytes,
                                 .slot_bytes = t->slot_bytes,
                                 .piece_bytes = t->piece_bytes,
                                 .piece_pitch = t->piece_pitch};
}

static uint8_t wanted(const struct trial *t, const uint8_t *source, int row, uint64_t i)
{
    const int64_t slot = list[row];

    if (slot < 0 || slot >= BLOCKS * SLOTS)
        return 0;
    return source[t->skew + (uint64_t)(slot / SLOTS) * t->block_bytes +
                  (uint64_t)(slot % SLOTS) * t->slot_bytes + i / t->piece_bytes * t->piece_pitch +
                  i % t->piece_bytes];
}

static bool is_right(const struct trial *t, const uint8_t *source, const uint8_t *out)
{
    const uint64_t row_bytes = 2 * t->piece_bytes;
    uint64_t i;

    for (i = 0; i < ROWS * row_bytes; i++)
        if (out[i] != wanted(t, source, (int)(i / row_bytes), i % row_bytes))
            return false;
    return true;
}

static bool write_words(const struct tap_gpu_copies_trial *t, uint64_t to, const void *from,
                        size_t bytes)
{
    uint32_t word;
    size_t at;

    for (at = 0; at < bytes; at += 4) {
        memcpy(&word, (const char *)from + at, 4);
        if (tap_driver.stream_write(t->stream, to + at, word, 0))
            return false;
    }
    return true;
}

static bool try_kernel(const struct tap_gpu_copies_trial *t)
{
    enum { N = sizeof trials / sizeof *trials };
    uint8_t source[SOURCE];
    uint32_t i;

    for (i = 0; i < SOURCE; i++)
        source[i] = (uint8_t)(0x9e3779b1u * (i + 1) >> 11 | 1);
    if (!write_words(t, t->ring, source, SOURCE) ||
        !write_words(t, t->ring + LIST, list, sizeof list))
        return false;
    for (i = 0; i < N; i++) {
        const struct td_gpu_cache cache = cache_of(&trials[i], t->ring);

        if (!tap_gpu_cache_rows_copy(t->ring + OUT + EACH * i, &cache, t->ring + LIST, ROWS,
                                     2 * trials[i].piece_bytes, t->stream))
            return false;
    }
    if (tap_driver.copy_to_host((void *)(uintptr_t)t->host, t->ring, TAP_GPU_TRIAL_BYTES,
                                t->stream) ||
        !tap_gpu_copies_wait_for_trial(t, 2))
        return false;
    for (i = 0; i < N; i++)
        if (!is_right(&trials[i], source, t->host + OUT + EACH * i))
            return false;
    return true;
}

void tap_gpu_cache_rows_open(const struct tap_gpu_copies_trial *t)
{
    void *module, *function;

    if (!tap_driver.module_load || !tap_driver.module_get_function || !tap_driver.launch ||
        !tap_driver.address_range || tap_driver.module_load(&module, ptx) ||
        tap_driver.module_get_function(&function, module, "td_cache_rows"))
        return;
    atomic_store_explicit(&kernel, function, memory_order_release);
    if (!try_kernel(t))
        tap_gpu_cache_rows_forget();
}

void tap_gpu_cache_rows_forget(void)
{
    atomic_store_explicit(&kernel, NULL, memory_order_release);
}
