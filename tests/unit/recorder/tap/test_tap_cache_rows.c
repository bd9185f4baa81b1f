/* test_tap_cache_rows.c - rows that operators write into caches of keys and values: how a call is read, and how the rows are
 * copied on the device.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Schemas, shapes and strides are those of vLLM 0.26: csrc/libtorch_stable/torch_bindings.cpp and cache_kernels.cu,
 * vllm/v1/attention/backends/flash_attn.py and mla/common.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_gpu.h"
#include "tap_bench.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/gpu/gpu_cache_rows.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/torch/torch_beside.h"
#include "tests/helpers/fake_torch.h"
#include "fake_torch_lib.h"

enum { M = 5, HEADS = 4, HEAD = 16, BLOCKS = 7, BLOCK = 8, N = HEADS * HEAD };

static struct bench bench;
static unsigned char gpu[1 << 16];      /* nobody reads what lies there */

static int setup(void **state)
{
    return gpu_setup(state) || fake_torch_setup(state);
}

/* Arm, so that the kernels are compiled and tried. */
static void arm(void)
{
    bench_open(&bench, TAP_MODE_ALL);
    assert_null(tap_front_cuda.start());
    gpu_pass(1, 1);
}

static void disarm(void)
{
    tap_front_cuda.stop(20000);
    bench_read(&bench);
    bench_close(&bench);
}

/* ---- on the device --------------------------------------------------------------------------------------------------- */

/* As vLLM's kernel finds element j of a row (cache_kernels.cu), in a cache of `size` bytes an element. */
static uint64_t flash_at(int64_t slot, int j, int64_t block_stride, int64_t page_stride, int64_t head_stride)
{
    return (uint64_t)(slot / BLOCK * block_stride + slot % BLOCK * page_stride + j / HEAD * head_stride + j % HEAD);
}

static void check_rows(const uint8_t *cache, const uint8_t *out, const int64_t *list, int64_t block_stride, int64_t page_stride, int64_t head_stride, int size)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            static const uint8_t zeros[8];
            const uint64_t at = flash_at(list[i], j, block_stride, page_stride, head_stride) * (uint64_t)size;
            const bool is_there = list[i] >= 0 && list[i] < BLOCKS * BLOCK;

            assert_memory_equal(out + (i * N + j) * size, is_there ? cache + at : zeros, (size_t)size);
        }
    assert_int_equal(out[M * N * size], 0xee);
}

static void rows_are_copied(void **state)
{
    static const int64_t slots[M] = {BLOCKS * BLOCK - 1, -1, 0, 13, BLOCKS * BLOCK};
    const uint64_t bytes = 1 << 16, from = gpu_memory(bytes), to = gpu_memory(bytes), list = gpu_memory(sizeof slots);

    (void)state;
    for (uint64_t i = 0; i < bytes; i++)
        ((uint8_t *)from)[i] = (uint8_t)(i * 2654435761u >> 13) | 1;
    memcpy((void *)list, slots, sizeof slots);
    arm();
    assert_true(tap_gpu_cache_rows_ready());
    for (int i = 0; i < 2 * 3 * 2; i++) {
        const int size = 1 << i % 3;
        const bool apart = i / 3 % 2;
        const uint64_t skew = i / 6 * (uint64_t)size, e = (uint64_t)size;
        const int64_t head_stride = apart ? BLOCK * HEAD : HEAD, page_stride = apart ? HEAD : N, block_stride = 2 * BLOCK * N;
        struct td_gpu_cache cache = {.address = from + skew, .slots = BLOCKS * BLOCK, .block = BLOCK, .block_bytes = (uint64_t)block_stride * e, .slot_bytes = (uint64_t)page_stride * e,
                                     .piece_bytes = (apart ? HEAD : N) * e, .piece_pitch = (uint64_t)head_stride * e};

        memset((void *)to, 0xee, bytes);
        assert_true(tap_gpu_cache_rows_copy(to, &cache, list, M, N * e, gpu_stream));
        cu.stream_synchronize(gpu_stream);
        check_rows((uint8_t *)cache.address, (uint8_t *)to, slots, block_stride, page_stride, head_stride, size);
        cache.slots = (int64_t)(bytes / cache.block_bytes + 2) * BLOCK; /* more than the memory holds */
        assert_false(tap_gpu_cache_rows_copy(to, &cache, list, M, N * e, gpu_stream));
        cache.slots = INT64_MAX - INT64_MAX % BLOCK;
        assert_false(tap_gpu_cache_rows_copy(to, &cache, list, M, N * e, gpu_stream));
    }
    disarm();
    cu.mem_free(from), cu.mem_free(to), cu.mem_free(list);
}

/* A kernel that copies wrongly is not used; the other one is. */
static void a_kernel_that_fails_is_not_used(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        tap_gpu_stage_forget();
        say->fault("cache_rows", n, 1);
        arm();
        assert_false(tap_gpu_cache_rows_ready());
        disarm();
    }
    tap_gpu_stage_forget();
    say->fault("gather", 1, 1);           /* without that one, this one is not asked for */
    arm();
    assert_false(tap_gpu_cache_rows_ready());
    disarm();
    tap_gpu_stage_forget();
    arm();
    assert_true(tap_gpu_cache_rows_ready());
    disarm();
}

/* ---- calls ----------------------------------------------------------------------------------------------------------- */

struct call { struct fake_torch_tensor t[8]; td_torch_value stack[8]; };

static const struct tap_torch_meaning *meaning_of(const char *name, const char *text)
{
    static struct { struct tap_torch_schema schema; const struct tap_torch_meaning *meaning; } kept[16]; /* as a process has them */
    static size_t n;

    assert_true(n < sizeof kept / sizeof *kept);
    assert_true(tap_torch_schema_read(text, &kept[n].schema));
    kept[n].meaning = tap_torch_meaning_of(name, &kept[n].schema);
    return kept[n++].meaning;
}

static void give(struct call *c, int at, int32_t dtype, int ndim, const int64_t *sizes, const int64_t *strides)
{
    int64_t dense = 1;

    c->t[at] = (struct fake_torch_tensor){.ndim = ndim, .dtype = dtype, .device = TD_TORCH_CUDA, .data = gpu + 4096 * at};
    for (int d = ndim; d--; dense *= sizes[d])
        c->t[at].sizes[d] = sizes[d], c->t[at].strides[d] = strides ? strides[d] : dense;
    c->stack[at] = (uintptr_t)&c->t[at];
}

#define OF(...) (sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}

static enum tap_torch_product read_call(const struct tap_torch_meaning *m, struct call *c, struct td_gpu_work *w)
{
    td_torch_tensor a = NULL;

    assert_non_null(m);
    return tap_torch_beside_read(m, c->stack, w, &a);
}

#define SCHEMA(name) name "(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()"

/* Keys and values are parts of a wider product, and padded by two rows. */
static void flash_call(struct call *c, const char *type, int32_t stored)
{
    const int64_t apart[] = {HEADS * BLOCK * 2 * HEAD, 2 * HEAD, BLOCK * 2 * HEAD, 1}; /* (blocks, heads, block, key and value) */

    memset(c, 0, sizeof *c);
    for (int i = 0; i < 2; i++) {
        give(c, i, TD_TORCH_BF16, OF(M + 2, HEADS, HEAD), (int64_t[]){3 * N, HEAD, 1});
        give(c, 2 + i, stored, OF(BLOCKS, BLOCK, HEADS, HEAD), apart);
        give(c, 6 + i, TD_TORCH_F32, OF(1), NULL);
    }
    give(c, 4, TD_TORCH_I64, OF(M), NULL);
    c->stack[5] = (uintptr_t)type;
}

static void is_row(const struct td_gpu_work *w, int i, const char *role, const char *dtype, int at, int64_t d0, int64_t d1)
{
    assert_true(i < w->n_op);
    assert_string_equal(w->op[i].role, role);
    assert_string_equal(w->op[i].dtype, dtype);
    assert_int_equal(w->op[i].address, (uintptr_t)(gpu + 4096 * at));
    assert_true(w->op[i].shape[0] == d0 && (d1 ? w->op[i].ndim == 2 && w->op[i].shape[1] == d1 : w->op[i].ndim == 1));
}

static int64_t attr_of(const struct td_gpu_work *w, const char *name)
{
    for (int i = 0; i < w->n_attr; i++)
        if (!strcmp(w->attr[i].name, name))
            return w->attr[i].value;
    return -1;
}

static void is_cache(const struct td_gpu_cache *c, int at, uint64_t block_bytes, uint64_t slot_bytes, uint64_t piece_bytes, uint64_t piece_pitch)
{
    assert_int_equal(c->address, (uintptr_t)(gpu + 4096 * at));
    assert_true(c->slots == BLOCKS * BLOCK && c->block == BLOCK);
    assert_int_equal(c->block_bytes, block_bytes);
    assert_int_equal(c->slot_bytes, slot_bytes);
    assert_int_equal(c->piece_bytes, piece_bytes);
    assert_int_equal(c->piece_pitch, piece_pitch);
}

static void test_heads_that_lie_apart(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C_cache_ops::reshape_and_cache_flash", SCHEMA("reshape_and_cache_flash"));
    struct td_gpu_work w;
    struct call c;

    (void)state;
    arm();
    flash_call(&c, "auto", TD_TORCH_BF16);
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.m == M && w.n == N && w.beside && w.whole && w.in_step && w.n_op == 5 && tap_gpu_gemm_outputs(&w) == 2);
    is_row(&w, 0, "a", "BF16", 0, M, N);
    assert_int_equal(w.op[0].row_stride, 3 * N);
    is_row(&w, 1, "value", "BF16", 1, M, N);
    is_row(&w, 2, "slots", "I64", 4, M, 0);
    is_row(&w, 3, "c", "BF16", 2, M, N);
    is_row(&w, 4, "c", "BF16", 3, M, N);
    assert_true(w.list == 3 && w.op[3].bytes == M * N * 2);
    is_cache(&w.cache[0], 2, HEADS * BLOCK * 2 * HEAD * 2, 2 * HEAD * 2, HEAD * 2, BLOCK * 2 * HEAD * 2);
    is_cache(&w.cache[1], 3, HEADS * BLOCK * 2 * HEAD * 2, 2 * HEAD * 2, HEAD * 2, BLOCK * 2 * HEAD * 2);
    assert_true(attr_of(&w, "block_size") == BLOCK && attr_of(&w, "head") == HEAD && attr_of(&w, "apart") == 1 && attr_of(&w, "x") == -1);
    disarm();
    tap_gpu_cache_rows_forget();
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN); /* without the kernel */
    tap_gpu_stage_forget();
}

/* Codes of 8 bits in bytes, heads side by side; a scale for each head. */
static void test_codes(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C_cache_ops::reshape_and_cache_flash", SCHEMA("reshape_and_cache_flash"));
    struct td_gpu_work w;
    struct call c;

    (void)state;
    arm();
    flash_call(&c, "fp8_e5m2", TD_TORCH_U8);
    for (int i = 2; i < 4; i++)
        give(&c, i, TD_TORCH_U8, OF(BLOCKS, BLOCK, HEADS, HEAD), (int64_t[]){2 * BLOCK * N, N, HEAD, 1});
    give(&c, 7, TD_TORCH_F32, OF(HEADS), NULL);
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_int_equal(w.n_op, 7);
    is_row(&w, 3, "k_scale", "F32", 6, 1, 0);
    is_row(&w, 4, "v_scale", "F32", 7, HEADS, 0);
    is_row(&w, 5, "c", "F8_E5M2", 2, M, N);
    is_cache(&w.cache[0], 2, 2 * BLOCK * N, N, N, N);
    assert_int_equal(attr_of(&w, "apart"), 0);
    c.stack[5] = (uintptr_t)"fp8";
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    is_row(&w, 6, "c", "F8_E4M3", 3, M, N);
    disarm();
}

static void test_a_packed_cache(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C_cache_ops::reshape_and_cache", SCHEMA("reshape_and_cache"));
    struct td_gpu_work w;
    struct call c;

    (void)state;
    arm();
    flash_call(&c, "auto", TD_TORCH_BF16);
    give(&c, 2, TD_TORCH_BF16, OF(BLOCKS, HEADS, HEAD / 8, BLOCK, 8), NULL);
    give(&c, 3, TD_TORCH_BF16, OF(BLOCKS, HEADS, HEAD, BLOCK), NULL);
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    is_cache(&w.cache[0], 2, BLOCK * N * 2, 8 * 2, 8 * 2, BLOCK * 8 * 2);
    is_cache(&w.cache[1], 3, BLOCK * N * 2, 2, 2, BLOCK * 2);
    assert_true(attr_of(&w, "x") == 8 && attr_of(&w, "head") == HEAD);
    is_row(&w, 3, "c", "BF16", 2, M, N);
    is_row(&w, 4, "c", "BF16", 3, M, N);
    c.t[3].strides[0]++;                  /* the kernel knows no gaps */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN);
    disarm();
}

static void test_a_joint_cache(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C_cache_ops::concat_and_cache_mla", "concat_and_cache_mla(Tensor kv_c, Tensor k_pe, Tensor! kv_cache, "
                                                   "Tensor slot_mapping, str kv_cache_dtype, Tensor scale) -> ()");
    struct td_gpu_work w;
    struct call c;

    (void)state;
    arm();
    memset(&c, 0, sizeof c);
    give(&c, 0, TD_TORCH_BF16, OF(M, 48), NULL);
    give(&c, 1, TD_TORCH_BF16, OF(M, 16), (int64_t[]){64, 1});
    give(&c, 2, TD_TORCH_BF16, OF(BLOCKS, BLOCK, 64), (int64_t[]){BLOCK * 80, 80, 1});
    give(&c, 3, TD_TORCH_I64, OF(M), NULL);
    c.stack[4] = (uintptr_t)"auto";
    give(&c, 5, TD_TORCH_F32, 0, NULL, NULL);
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_READ);
    assert_true(w.n == 48 && w.n_op == 4 && w.list == 3 && tap_gpu_gemm_outputs(&w) == 1);
    is_row(&w, 1, "k_pe", "BF16", 1, M, 16);
    is_row(&w, 3, "c", "BF16", 2, M, 64);
    is_cache(&w.cache[0], 2, BLOCK * 80 * 2, 80 * 2, 64 * 2, 64 * 2);
    assert_true(attr_of(&w, "block_size") == BLOCK && attr_of(&w, "head") == -1);
    c.stack[4] = (uintptr_t)"fp8_ds_mla"; /* codes with scales of their own among them */
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_UNKNOWN);
    disarm();
}

static void test_calls_that_are_not_known(void **state)
{
    const struct tap_torch_meaning *m = meaning_of("_C_cache_ops::reshape_and_cache_flash", SCHEMA("reshape_and_cache_flash"));
    struct td_gpu_work w;
    struct call c;

    (void)state;
    arm();
    for (int i = 0; i < 10; i++) {
        flash_call(&c, "auto", TD_TORCH_BF16);
        switch (i) {
        case 0: c.stack[5] = (uintptr_t)"nvfp4"; break;
        case 1: c.stack[5] = 0; break;
        case 2: c.t[3].dtype = TD_TORCH_U8; break;
        case 3: c.t[4].dtype = TD_TORCH_I32; break;
        case 4: c.t[4].sizes[0] = M + 3; break; /* more slots than rows */
        case 5: c.t[1].dtype = TD_TORCH_F16; break;
        case 6: c.t[2].strides[3] = 2; break;
        case 7: c.t[2].strides[0] = INT64_MAX / 2; break;
        case 8: c.t[2].device = TD_TORCH_CPU; break;
        default: c.t[0].strides[1] = HEAD + 1;
        }
        if (read_call(m, &c, &w) != TAP_TORCH_UNKNOWN)
            fail_msg("call %d was read", i);
    }
    flash_call(&c, "auto", TD_TORCH_BF16);
    c.t[4].sizes[0] = 0;
    assert_int_equal(read_call(m, &c, &w), TAP_TORCH_EMPTY);
    assert_null(meaning_of("_C_cache_ops::reshape_and_cache_flash", "reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, "
                           "Tensor slot_mapping, int kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()"));
    disarm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_copied),
        cmocka_unit_test(a_kernel_that_fails_is_not_used),
        cmocka_unit_test(test_heads_that_lie_apart),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_a_packed_cache),
        cmocka_unit_test(test_a_joint_cache),
        cmocka_unit_test(test_calls_that_are_not_known),
    };

    return cmocka_run_group_tests(tests, setup, gpu_teardown);
}
