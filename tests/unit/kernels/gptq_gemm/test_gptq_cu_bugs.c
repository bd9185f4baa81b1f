/* test_gptq_cu_bugs.c - the GPU kernels with planted bugs, in the emulator: wrong exactly where demo/bugs/README.md says.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/unit/kernels/gptq_gemm/gptq_cu_case.h"

#define SHAPE(...) ((struct gptq_shape){__VA_ARGS__})

struct build { void *so; cu_launch_fn *launch; };

static struct build build_open(const char *name)
{
    const char *lib = getenv("LIB");
    struct build b;
    char path[4096];
    void *symbol;

    snprintf(path, sizeof path, "%s/%s.simt.so", lib ? lib : "lib", name);
    if (!(b.so = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fail_msg("%s; `make tests` builds it", dlerror());
    assert_non_null(symbol = dlsym(b.so, "td_simt_launch"));
    memcpy(&b.launch, &symbol, sizeof b.launch);
    return b;
}

/* Share of wrong elements; A is `outlier` times a normal. c, if not NULL, gets a copy of C. */
static double wrong_share(const struct build *b, struct gptq_shape s, bool exllama, float outlier, uint64_t seed, uint16_t *c)
{
    struct gptq_cu_case t;
    int64_t bad;

    case_seed = 99; /* equal inputs, whatever the seed of the order */
    cu_case_new(&t, &s, exllama, true);
    for (int64_t i = 0; i < s.m * (int64_t)s.k; i++)
        ((uint16_t *)t.x.a.data)[i] = td_f16_round(td_f16_load(t.x.x.a[i]) * outlier);
    cu_case_run(&t, b->launch, "f32", seed, 32);
    case_worst(&t.x, &bad);
    if (c)
        memcpy(c, t.x.x.c, (size_t)s.m * (size_t)s.n * 2);
    cu_case_release(&t);
    return (double)bad / ((double)s.m * s.n);
}

#define FULL4(m) SHAPE(m, 128, 256, 4, 64, 1, false, 0, 0)
#define TAIL4(m) SHAPE(m, 136, 256, 4, 64, 1, false, 0, 0)
#define TAIL8(m) SHAPE(m, 72, 256, 8, 32, 0, true, 0, 0)

static const struct {
    const char *name;
    struct gptq_shape right[3], wrong[3]; /* end with m == 0 */
    double least, most;                   /* share of wrong elements */
} bugs[] = {
    {"td_kernels", {FULL4(3), TAIL4(9), TAIL8(5)}, {{0}}, 0, 0},
    {"bugs-gpu/column_tail", {FULL4(3), FULL4(9)}, {TAIL4(3)}, 0.04, 0.06},
    {"bugs-gpu/column_tail", {FULL4(1)}, {TAIL8(3)}, 0.9, 1},
    {"bugs-gpu/zero_off_by_one", {{0}}, {FULL4(1), TAIL4(3), TAIL8(9)}, 0.9, 1},
    {"bugs-gpu/fp16_overflow", {TAIL8(1), TAIL8(9), FULL4(51)}, {FULL4(1), TAIL4(50)}, 0.2, 1},
    {"bugs-gpu/no_barrier", {{0}}, {FULL4(1), TAIL4(9), TAIL8(9)}, 0.5, 1},
    {"bugs-gpu/past_end", {FULL4(3), FULL4(9)}, {{0}}, 0, 0},
};

static void test_wrong_where_it_should_be(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        for (int exllama = 0; exllama < 2; exllama++) {
            const struct build b = build_open(bugs[i].name);

            for (int j = 0; j < 3 && bugs[i].right[j].m; j++)
                assert_true(wrong_share(&b, bugs[i].right[j], exllama, 1.0f, (uint64_t)j, NULL) == 0);
            for (int j = 0; j < 3 && bugs[i].wrong[j].m; j++) {
                const double share = wrong_share(&b, bugs[i].wrong[j], exllama, 1.0f, (uint64_t)j, NULL);

                if (share < bugs[i].least || share > bugs[i].most)
                    fail_msg("%s: %.3f of the elements wrong in shape %d", bugs[i].name, share, j);
            }
            dlclose(b.so);
        }
}

/* A race gives another result from seed to seed; the right kernel never does. */
static void test_a_race_shows_over_seeds(void **state)
{
    const char *const names[] = {"td_kernels", "bugs-gpu/no_barrier"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct build b = build_open(names[i]);
        uint16_t first[3 * 136], c[3 * 136];
        int differ = 0;

        wrong_share(&b, TAIL4(3), false, 1.0f, 102, first);
        for (uint64_t seed = 103; seed < 113; seed++) {
            wrong_share(&b, TAIL4(3), false, 1.0f, seed, c);
            differ += memcmp(c, first, sizeof c) != 0;
        }
        if (i)
            assert_in_range(differ, 8, 10);
        else
            assert_int_equal(differ, 0);
        dlclose(b.so);
    }
}

static void test_overflow_makes_inf(void **state)
{
    const struct build good = build_open("td_kernels"), bad = build_open("bugs-gpu/fp16_overflow");
    uint16_t c[128];
    int infinite = 0;

    (void)state;
    assert_true(wrong_share(&good, FULL4(1), true, 4096.0f, 1, NULL) == 0);
    wrong_share(&bad, FULL4(1), true, 4096.0f, 1, c);
    for (int i = 0; i < 128; i++)
        infinite += !isfinite(td_f16_load(c[i]));
    assert_in_range(infinite, 20, 128);
    dlclose(good.so);
    dlclose(bad.so);
}

/* Behind the last row there is a guard page. */
static void test_past_the_end_crashes(void **state)
{
    const struct build b = build_open("bugs-gpu/past_end");
    int status;
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        signal(SIGSEGV, SIG_DFL);
        wrong_share(&b, TAIL8(1), false, 1.0f, 1, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    dlclose(b.so);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_where_it_should_be),
        cmocka_unit_test(test_a_race_shows_over_seeds),
        cmocka_unit_test(test_overflow_makes_inf),
        cmocka_unit_test(test_past_the_end_crashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
