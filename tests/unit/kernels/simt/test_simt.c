/* test_simt.c - the emulator: fibres, barriers, warp functions, half arithmetic, and what it says of kernels that are wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/simt/simt_thread.h"
#include "common/f16.h"
#include "tests/unit/data/half_expected.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

extern const struct td_simt_kernel td_simt_kernels_simt_test[];
void t_launch_by_macro(float *out, int threads, int with_barrier);

static const struct td_simt_kernel *kernel(const char *symbol)
{
    for (const struct td_simt_kernel *k = td_simt_kernels_simt_test; k->symbol; k++)
        if (!strcmp(k->symbol, symbol))
            return k;
    fail_msg("no kernel %s", symbol);
    return NULL;
}

#define DIM(...) ((struct td_simt_dim){__VA_ARGS__})
#define PARAMS(...) ((void *const[]){__VA_ARGS__})

static int try_launch(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block, void *const *params, uint64_t seed, int warp, struct td_error *err)
{
    return td_simt_launch_kernel(kernel(symbol), grid, block, 0, params, seed, warp, err);
}

static void launch(const char *symbol, struct td_simt_dim grid, struct td_simt_dim block, void *const *params, uint64_t seed, int warp)
{
    struct td_error err = {0};

    if (try_launch(symbol, grid, block, params, seed, warp, &err))
        fail_msg("%s", err.msg);
}

/* ---- places and orders ---------------------------------------------------------------------------------------------- */

#define PLACES (3 * 2 * 2 * 4 * 3 * 2)

static void test_every_thread_runs_once(void **state)
{
    uint32_t out[PLACES], order[2][PLACES], clock, *p_out = out, *p_order, *p_clock = &clock;
    int same = 0, in_order = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++) {
        clock = 0;
        p_order = order[seed];
        memset(out, 0xff, sizeof out);
        launch("t_place", DIM(3, 2, 2), DIM(4, 3, 2), PARAMS(&p_out, &p_order, &p_clock), seed, 32);
        assert_int_equal(clock, PLACES);
        for (uint32_t i = 0; i < PLACES; i++) {
            const uint32_t t = i % 24, b = i / 24;

            assert_int_equal(out[i], t % 4 | t / 4 % 3 << 8 | t / 12 << 16 | b % 3 << 20 | b / 3 % 2 << 24 | b / 6 << 28);
        }
    }
    for (uint32_t i = 0; i < PLACES; i++) {
        same += order[0][i] == order[1][i];
        in_order += order[0][i] == i;
    }
    assert_in_range(same, 0, PLACES / 4); /* threads and blocks came in another order */
    assert_in_range(in_order, 0, PLACES / 4);
}

static void test_equal_seeds_give_equal_orders(void **state)
{
    uint32_t out[PLACES], order[2][PLACES], clock, *p_out = out, *p_order, *p_clock = &clock;

    (void)state;
    for (int i = 0; i < 2; i++) {
        clock = 0;
        p_order = order[i];
        launch("t_place", DIM(3, 2, 2), DIM(4, 3, 2), PARAMS(&p_out, &p_order, &p_clock), 77, 32);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
}

/* ---- barriers ------------------------------------------------------------------------------------------------------- */

/* Wrong elements of a launch of t_neighbour. */
static int wrong_neighbours(uint64_t seed, int with_barrier)
{
    float out[96], *p = out;
    int bad = 0;

    launch("t_neighbour", DIM(1, 1, 1), DIM(96, 1, 1), PARAMS(&p, &with_barrier), seed, 32);
    for (int i = 0; i < 96; i++)
        bad += !(out[i] == (float)((i + 1) % 96));
    return bad;
}

static void test_a_missing_barrier_shows(void **state)
{
    int first = wrong_neighbours(0, 0), differ = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(wrong_neighbours(seed, 1), 0);
        assert_in_range(wrong_neighbours(seed, 0), 10, 90); /* about half of the neighbours came later */
        differ += wrong_neighbours(seed, 0) != first;
    }
    assert_in_range(differ, 10, 20);
}

static void test_shared_memory_is_not_zero(void **state)
{
    uint32_t out[4 * 96], *p = out;

    (void)state;
    for (uint64_t seed = 0; seed < 4; seed += 2) {
        launch("t_uninitialised", DIM(4, 1, 1), DIM(96, 1, 1), PARAMS(&p), seed, 32);
        for (size_t i = 0; i < COUNT(out); i++) /* nor what the block before left */
            assert_int_equal(out[i], seed ? 0x3c3c3c3c : 0xffffffff);
    }
}

static void refused(const char *symbol, unsigned threads, void *const *params, const char *what, const char *line)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct td_error err = {0};

        assert_int_equal(try_launch(symbol, DIM(1, 1, 1), DIM(threads, 1, 1), params, seed, 32, &err), TD_EINVAL);
        if (!strstr(err.msg, what) || !strstr(err.msg, line) || !strstr(err.msg, symbol))
            fail_msg("\"%s\" says neither \"%s\" nor \"%s\"", err.msg, what, line);
    }
    assert_int_equal(wrong_neighbours(1, 1), 0); /* and the emulator goes on */
}

static void test_divergent_barriers_are_named(void **state)
{
    (void)state;
    refused("t_diverge", 96, PARAMS(&(int){0}), "thread (40,0,0) never comes, it has left the kernel", "__syncthreads at tests/unit/kernels/simt/simt_kernels.cu:");
    refused("t_diverge", 96, PARAMS(&(int){1}), "thread (5,0,0) never comes, it has left the kernel", "__syncthreads at tests/unit/kernels/simt/simt_kernels.cu:");
    refused("t_diverge", 96, PARAMS(&(int){2}), "thread (1,0,0) never comes, it waits in __syncthreads at", "thread (0,0,0) of block (0,0,0)");
}

/* ---- warps ---------------------------------------------------------------------------------------------------------- */

static void warp_case(int warp, uint64_t seed)
{
    uint32_t out[192 * 6], *p = out;

    launch("t_warp", DIM(1, 1, 1), DIM(192, 1, 1), PARAMS(&p), seed, warp);
    for (int i = 0; i < 192; i++) {
        const int lane = i % warp, first = i - lane;
        const uint32_t *row = out + i * 6;
        uint32_t total = 0, up = 0, bits = 0;

        for (int j = 0; j < warp; j++) {
            total += (uint32_t)(first + j);
            up += j <= lane ? (uint32_t)(first + j) : 0;
            bits |= j < 32 && (first + j) % 3 == 0 ? 1u << j : 0;
        }
        assert_int_equal(row[0], total);
        if (lane == 0) /* of the others, down adds what they brought twice */
            assert_int_equal(row[1], total);
        assert_int_equal(row[2], up);
        assert_int_equal(row[3], i / 8 * 8 + 3);
        assert_int_equal(row[4], bits);
        assert_int_equal(row[5], 3);
    }
}

static void test_warp_functions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        warp_case(32, seed);
        warp_case(64, seed);
    }
}

static void test_parts_of_a_warp(void **state)
{
    uint32_t out[32], *p = out;

    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        launch("t_warp_parts", DIM(1, 1, 1), DIM(32, 1, 1), PARAMS(&p, &(int){0}), seed, 32);
        for (uint32_t i = 0; i < 32; i++)
            assert_int_equal(out[i], i < 16 ? i ^ 1 : i ^ 2);
    }
    refused("t_warp_parts", 32, PARAMS(&p, &(int){1}), "thread (16,0,0) never comes, it has left the kernel", "__shfl_xor_sync at");
    refused("t_warp_parts", 32, PARAMS(&p, &(int){2}), "its own lane is not in the mask", "__shfl_sync at");
    refused("t_warp_parts", 32, PARAMS(&p, &(int){3}), "it reads a lane that takes no part", "__shfl_xor_sync at");
    refused("t_warp_parts", 32, PARAMS(&p, &(int){4}), "never comes, it waits in __shfl_sync", "__syncthreads at");
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static void test_atomics_come_in_any_order(void **state)
{
    static float values[4 * 96];
    float f, first = 0, *pf = &f, *pv = values;
    uint16_t h, h2[2], *ph = &h, *ph2 = h2;
    int n, *pn = &n, differ = 0;
    double sum = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++)
        sum += values[i] = (float)(1 + i * i % 37) * 0.01f;
    for (uint64_t seed = 0; seed < 10; seed++) {
        f = 0, h = 0, n = 0, h2[0] = h2[1] = 0;
        launch("t_atomics", DIM(4, 1, 1), DIM(96, 1, 1), PARAMS(&pf, &ph, &ph2, &pn, &pv), seed, 32);
        assert_int_equal(n, 4 * 96);
        assert_true(fabs(f - sum) < 1e-4 * sum);
        assert_true(fabs(td_f16_load(h) - sum) < 0.02 * sum); /* halves lose more */
        assert_int_equal(h2[0], h2[1] ^ 0x8000);
        assert_int_equal(h2[0], h);
        first = seed ? first : f;
        differ += f != first;
    }
    assert_in_range(differ, 1, 9);
}

static int dynamic(int beyond, unsigned threads)
{
    uint32_t out[96], *p = out;
    struct td_error err = {0};

    if (td_simt_launch_kernel(kernel("t_dynamic"), DIM(1, 1, 1), DIM(threads, 1, 1), threads * 4, PARAMS(&p, &beyond), 3, 32, &err))
        fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < threads; i++)
        assert_int_equal(out[i], i);
    return 0;
}

static void test_dynamic_shared_memory_ends_at_a_guard_page(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    dynamic(0, 96);
    dynamic(0, 4);
    pid = fork();
    if (!pid) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's, nor AddressSanitizer's */
        dynamic(1, 96);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

static void same_half(size_t i, const char *what, uint16_t got, uint16_t want)
{
    if (got != want)
        fail_msg("row %zu (%04x %04x %04x): %s is %04x, should be %04x", i, half_expected[i].a, half_expected[i].b, half_expected[i].c, what, got, want);
}

static void test_half_arithmetic_is_numpys(void **state)
{
    enum { N = COUNT(half_expected) };
    static uint16_t a[N], b[N], c[N], out[N][8];
    static uint32_t f[N];
    uint16_t *pa = a, *pb = b, *pc = c, *po = out[0];
    uint32_t *pf = f;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        a[i] = half_expected[i].a;
        b[i] = half_expected[i].b;
        c[i] = half_expected[i].c;
        f[i] = half_expected[i].f;
    }
    launch("t_half", DIM((N + 127) / 128, 1, 1), DIM(128, 1, 1), PARAMS(&pa, &pb, &pc, &pf, &po, &(int){N}), 1, 32);
    for (size_t i = 0; i < N; i++) {
        const bool zeros = !((a[i] | b[i]) & 0x7fff); /* numpy does not say which zero is larger */

        same_half(i, "a + b", out[i][0], half_expected[i].add);
        same_half(i, "a - b", out[i][1], half_expected[i].sub);
        same_half(i, "a * b", out[i][2], half_expected[i].mul);
        same_half(i, "a * b + c", out[i][3], half_expected[i].fma);
        same_half(i, "max", zeros ? half_expected[i].max : out[i][4], half_expected[i].max);
        same_half(i, "min", zeros ? half_expected[i].min : out[i][5], half_expected[i].min);
        same_half(i, "from float", out[i][6], half_expected[i].from_float);
        if (!zeros)
            same_half(i, "the pair's high half", out[i][7], half_expected[i].fma);
    }
}

static void test_zeros_have_an_order(void **state)
{
    static uint16_t a[] = {0x8000, 0x0000}, b[] = {0x0000, 0x8000}, out[2][8];
    uint16_t *pa = a, *pb = b, *po = out[0];
    float f[2] = {0, 0}, *pf = f;

    (void)state;
    launch("t_half", DIM(1, 1, 1), DIM(2, 1, 1), PARAMS(&pa, &pb, &pa, &pf, &po, &(int){2}), 1, 32);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(out[i][4], 0x0000);
        assert_int_equal(out[i][5], 0x8000);
    }
}

/* ---- the table and the sizes ---------------------------------------------------------------------------------------- */

/* want: nvcc -cubin -arch=sm_90 tests/unit/kernels/simt/simt_kernels.cu, cuobjdump -elf, EIATTR_KPARAM_INFO of t_params (CUDA 13.0) */
static void test_parameters_lie_as_nvcc_puts_them(void **state)
{
    static const struct td_gpu_param want[] = {{0, 1}, {8, 8}, {16, 2}, {20, 4}, {24, 1}, {32, 16}, {48, 8}};
    const struct td_simt_kernel *k = kernel("t_params");
    uint32_t f[4] __attribute__((aligned(16))) = {1, 2, 3, 4};
    uint16_t d[2] = {0x3c00, 0x4000};
    double out[2], *p = out;

    (void)state;
    assert_int_equal(k->n_params, COUNT(want));
    assert_memory_equal(k->params, want, sizeof want);
    launch("t_params", DIM(1, 1, 1), DIM(1, 1, 1), PARAMS(&(uint8_t){5}, &(uint64_t){1ull << 40}, &(uint16_t){7}, d, &(bool){true}, f, &p), 0, 32);
    assert_true(out[0] == 5 + 0x1p40 + 7 + 3 + 1 + 10);
    assert_true(out[1] == out[0] + 5.5);
}

static void test_kernels_are_found_by_name(void **state)
{
    struct td_error err = {0};
    int n = 0;

    (void)state;
    while (td_simt_kernel_at(n))
        n++;
    assert_in_range(n, 8, 1000);
    assert_null(td_simt_kernel_at(-1));
    assert_non_null(td_simt_kernel_find("td_gptq_gemm_4bit_f32"));
    assert_int_equal(td_simt_launch("nonsense", DIM(1, 1, 1), DIM(1, 1, 1), 0, NULL, 0, 32, &err), TD_ENOTFOUND);
    assert_non_null(strstr(err.msg, "nonsense"));
}

static void test_sizes_that_no_gpu_takes(void **state)
{
    void *const params[] = {&(int){3}};
    struct td_error err = {0};

    (void)state;
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(1024, 1, 1), params, 0, 32, &err), TD_OK);
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(1025, 1, 1), params, 0, 32, &err), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(32, 33, 1), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(1, 1, 65), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(0, 1, 1), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(0, 1, 1), DIM(1, 1, 1), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1, 65536, 1), DIM(1, 1, 1), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1u << 31, 1, 1), DIM(1, 1, 1), params, 0, 32, NULL), TD_EINVAL);
    assert_int_equal(try_launch("t_diverge", DIM(1, 1, 1), DIM(1, 1, 1), params, 0, 48, NULL), TD_EINVAL);
    assert_int_equal(td_simt_launch_kernel(kernel("t_diverge"), DIM(1, 1, 1), DIM(1, 1, 1), 232449, params, 0, 32, NULL), TD_EINVAL);
}

static void test_launch_by_macro(void **state)
{
    float out[96] = {0};
    struct td_error err = {0};

    (void)state;
    td_simt_choose(5, 32);
    t_launch_by_macro(out, 96, 1);
    assert_int_equal(td_simt_take_error(&err), TD_OK);
    for (int i = 0; i < 96; i++)
        assert_true(out[i] == (float)((i + 1) % 96));
    t_launch_by_macro(out, 2000, 1);
    assert_int_equal(td_simt_take_error(&err), TD_EINVAL);
    assert_non_null(strstr(err.msg, "t_neighbour"));
    assert_int_equal(td_simt_take_error(NULL), TD_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_thread_runs_once),
        cmocka_unit_test(test_equal_seeds_give_equal_orders),
        cmocka_unit_test(test_a_missing_barrier_shows),
        cmocka_unit_test(test_shared_memory_is_not_zero),
        cmocka_unit_test(test_divergent_barriers_are_named),
        cmocka_unit_test(test_warp_functions),
        cmocka_unit_test(test_parts_of_a_warp),
        cmocka_unit_test(test_atomics_come_in_any_order),
        cmocka_unit_test(test_dynamic_shared_memory_ends_at_a_guard_page),
        cmocka_unit_test(test_half_arithmetic_is_numpys),
        cmocka_unit_test(test_zeros_have_an_order),
        cmocka_unit_test(test_parameters_lie_as_nvcc_puts_them),
        cmocka_unit_test(test_kernels_are_found_by_name),
        cmocka_unit_test(test_sizes_that_no_gpu_takes),
        cmocka_unit_test(test_launch_by_macro),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
