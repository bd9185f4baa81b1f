/* test_gpu_launches.c - what a real vLLM passed to its GEMM kernels (data/vllm_launches.txt): the adapters read it, and a replay would launch it so.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/fs.h"
#include "kernels/adapters/adapters.h"
#include "kernels/gpu/geometry_marlin.h"

#define MAX_LINES 100
#define BLOCK_BYTES 256

struct seen {
    char *symbol, *what;
    uint32_t grid[3], block[3], shared_bytes;
    struct td_gpu_param param[TD_GPU_PARAMS];
    int n;
    uint8_t bytes[BLOCK_BYTES];       /* between the parameters rubbish */
    void *value[TD_GPU_PARAMS];       /* each in memory of its own */
    const struct td_gpu_adapter *row;
    struct td_gpu_work work;
};

static struct td_buf file = TD_BUF_INIT(1 << 20);
static struct seen all[MAX_LINES];
static int n_all;

/* ---- reading the file ---------------------------------------------------------------------------------------------- */

static void read_param(struct seen *s, const char *word)
{
    unsigned at, size, byte, i;
    int hex;

    assert_int_equal(sscanf(word, "%u+%u=%n", &at, &size, &hex), 2);
    assert_true(s->n < TD_GPU_PARAMS && size <= 8 && at + size <= BLOCK_BYTES);
    s->value[s->n] = malloc(size);
    for (i = 0; i < size; i++) {
        assert_int_equal(sscanf(word + hex + 2 * i, "%2x", &byte), 1);
        ((uint8_t *)s->value[s->n])[i] = s->bytes[at + i] = (uint8_t)byte;
    }
    s->param[s->n++] = (struct td_gpu_param){at, size};
}

static void read_line(char *line)
{
    struct seen *s = &all[n_all++];
    char *save, *word;

    assert_true(n_all < MAX_LINES);
    memset(s->bytes, 0xee, sizeof s->bytes);
    s->what = strstr(line, " = ");
    assert_non_null(s->what);
    *s->what = '\0';
    s->what += 3;
    s->symbol = strtok_r(line, " ", &save);
    assert_int_equal(sscanf(strtok_r(NULL, " ", &save), "%u,%u,%u", &s->grid[0], &s->grid[1], &s->grid[2]), 3);
    assert_int_equal(sscanf(strtok_r(NULL, " ", &save), "%u,%u,%u", &s->block[0], &s->block[1], &s->block[2]), 3);
    assert_int_equal(sscanf(strtok_r(NULL, " ", &save), "%u", &s->shared_bytes), 1);
    while ((word = strtok_r(NULL, " ", &save)))
        read_param(s, word);
}

static int setup(void **state)
{
    const char *root = getenv("ROOT");
    char path[TD_PATH_MAX], *save, *line;

    (void)state;
    if (td_fs_join(path, sizeof path, root ? root : ".", "tests/unit/data/vllm_launches.txt", NULL) || td_fs_read(path, 1 << 20, &file, NULL))
        return -1;
    for (line = strtok_r(file.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (*line != '#')
            read_line(line);
    return n_all > 50 ? 0 : -1;
}

static int teardown(void **state)
{
    int i, k;

    (void)state;
    for (i = 0; i < n_all; i++)
        for (k = 0; k < all[i].n; k++)
            free(all[i].value[k]);
    td_buf_release(&file);
    return 0;
}

/* ---- what the adapters make of it ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Where the parameter lies that holds this operand's address. */
static unsigned place(const struct seen *s, const struct td_gpu_operand *o)
{
    int i = td_gpu_field_at(s->row, o->role);

    assert_true(i >= 0);
    assert_memory_equal(s->value[i], &o->address, 8);
    return s->param[i].offset;
}

/* As the file has it. */
static void say(const struct seen *s, char *out, size_t size)
{
    const struct td_gpu_work *w = &s->work;
    char op[TD_GPU_OPERANDS][100], m[24] = "-";
    size_t at;
    int i, n = 0;

    for (i = 0; i < w->n_op; i++) {
        const struct td_gpu_operand *o = &w->op[i];

        if (!strcmp(o->role, "a"))
            snprintf(m, sizeof m, "%lld", (long long)w->m);
        if (!o->address)
            continue;
        if (o->ndim == 2)
            snprintf(op[n++], sizeof *op, "%s@%u:%s[%lld,%lld]", o->role, place(s, o), o->dtype, (long long)o->shape[0], (long long)o->shape[1]);
        else
            snprintf(op[n++], sizeof *op, "%s@%u:%s[%lld]", o->role, place(s, o), o->dtype, (long long)o->shape[0]);
    }
    qsort(op, (size_t)n, sizeof *op, by_text);
    at = (size_t)snprintf(out, size, "%s m=%s n=%lld k=%lld bits=%d group=%d order=%d zero=%d", s->row->family, m, (long long)w->n, (long long)w->k, w->bits, w->group_size,
                          w->act_order, w->zero_offset);
    for (i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, " %s", op[i]);
}

static void adapters_read_them(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < n_all; i++) {
        struct seen *s = &all[i];
        struct td_gpu_values v, same;
        bool known;
        char got[1000];

        s->row = td_gpu_adapter_find(s->symbol, s->param, s->n, &known);
        if (!strcmp(s->what, "unknown")) {
            assert_true(!s->row && !known);
            continue;
        }
        assert_non_null(s->row);
        assert_true(td_gpu_values_read(s->row, s->param, s->value, NULL, 0, &v));
        assert_true(td_gpu_values_read(s->row, s->param, NULL, s->bytes, sizeof s->bytes, &same));
        assert_memory_equal(&v, &same, sizeof v);
        assert_true(td_gpu_work_read(s->row, &v, &s->work));
        say(s, got, sizeof got);
        assert_string_equal(got, s->what);
    }
}

/* ---- what a replay would launch ------------------------------------------------------------------------------------ */

/* Zero points as the checkpoint has them: of a Marlin row that reads none all are in the middle (8 of 16). */
static struct td_gptq_op op_of(const struct td_gpu_work *w)
{
    static uint32_t middle[16384], zeros[16384];
    const enum td_dtype dtype = td_dtype_parse(w->op[0].dtype);
    bool reads_zeros = td_gpu_field_at(w->adapter, "qzeros") >= 0;

    memset(middle, 0x88, sizeof middle);
    assert_true(w->k / w->group_size * w->n * w->bits / 32 <= 16384);
    return (struct td_gptq_op){.m = w->m, .n = w->n, .k = w->k, .lda = w->k, .ldc = w->n, .groups = w->k / w->group_size, .bits = w->bits, .group_size = w->group_size,
                               .zero_offset = w->zero_offset, .dtype = dtype, .scales_dtype = dtype, .qzeros = reads_zeros ? zeros : middle};
}

static void expect_launch(const struct seen *s, const struct td_gpu_plan *plan, const struct td_gpu_offer *offers)
{
    const struct td_gpu_launch *l = &plan->launch[0];

    assert_int_equal(plan->n, 1);
    assert_string_equal(offers[l->offer].symbol, s->symbol);
    assert_memory_equal(l->grid, s->grid, sizeof l->grid);
    assert_memory_equal(l->block, s->block, sizeof l->block);
    assert_int_equal(l->shared_bytes, s->shared_bytes);
}

/* One launch of what vLLM cuts an op into: so many rows are one op here. */
static void plans_are_theirs(void **state)
{
    static const struct td_op_call unrecorded; /* else what was recorded is launched again, and no rule is asked */
    const struct td_gpu_facts h200 = {.sm = 90, .shared_max = 232448, .multiprocessors = 132};
    int i, gptq = 0, marlin = 0;

    (void)state;
    for (i = 0; i < n_all; i++) {
        const struct seen *s = &all[i];
        struct td_gpu_offer offers[MAX_LINES];
        struct td_gptq_op op;
        struct td_gpu_plan plan;
        char why[300];
        int k, n = 0;

        if (!s->row || !s->work.m || s->work.m > 128)
            continue;
        for (k = 0; k < n_all; k++)
            if (all[k].row == s->row)
                offers[n++] = (struct td_gpu_offer){all[k].symbol, all[k].row};
        op = op_of(&s->work);
        if (strstr(s->symbol, "Marlin")) {
            assert_null(td_gpu_plan_marlin(&op, &unrecorded, offers, n, &h200, &plan, why, sizeof why));
            marlin++;
        } else {
            assert_null(td_gpu_plan_gptq(&op, offers, n, &plan, why, sizeof why));
            gptq++;
        }
        expect_launch(s, &plan, offers);
    }
    assert_int_equal(gptq, 31);
    assert_int_equal(marlin, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(adapters_read_them), cmocka_unit_test(plans_are_theirs)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
