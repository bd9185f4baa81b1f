/* lib_vllm_model.c - the model of a fake vLLM server on a CPU: three layers, each multiplied by another of the functions that the
 * tap's front stands before. It calls those of lib_fake_vllm.c, which it lets compute. A Python file for fake_server.py's --steps
 * loads it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * x [rows, SIZE] -> cpu_gemm_wna16 -> onednn_mm -> at::linear. The first weights are made up here; those of the other two come from
 * a checkpoint, [SIZE, SIZE] bf16. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/step_results.h"
#include "tests/unit/recorder/tap/fake_vllm.h"

#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* no header: Python finds these */

enum { SIZE = 64, GROUP = 32, ROWS = 64, HANDLER = 0x7000 };

FAKE_DECLARE
extern void (*fake_gemm)(const struct fake_impl *c, const struct fake_impl *x, const struct fake_impl *w);
extern struct fake_impl fake_result;

static uint32_t packed[SIZE / 16 * 2 * SIZE];
static uint16_t scales[SIZE / GROUP * SIZE], behind_handler[SIZE * SIZE], plain[SIZE * SIZE], x[4][ROWS * SIZE];

static float wide(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static uint16_t bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static struct fake_impl matrix(int32_t dtype, void *data, int64_t rows, int64_t cols)
{
    return (struct fake_impl){.ndim = 2, .sizes = {rows, cols}, .strides = {cols, 1}, .dtype = dtype, .data = data};
}

/* Weight of input k and output n. The dtype of what a function got tells which one it was. */
static float weight(const struct fake_impl *w, int k, int n)
{
    uint32_t word;

    if (w->dtype != FAKE_I32)
        return wide((w->dtype == FAKE_I64 ? behind_handler : (const uint16_t *)w->data)[n * SIZE + k]);
    word = ((const uint32_t *)w->data)[n / 16 * 2 * SIZE + 2 * k + n % 16 / 8];
    return wide(bf16((float)((int)(word >> n % 8 * 4 & 15) - 8) * wide(scales[k / GROUP * SIZE + n])));
}

static void gemm(const struct fake_impl *c, const struct fake_impl *a, const struct fake_impl *w)
{
    int64_t i;
    int k, n;

    for (i = 0; i < c->sizes[0]; i++)
        for (n = 0; n < SIZE; n++) {
            double sum = 0;

            for (k = 0; k < SIZE; k++)
                sum += (double)wide(((const uint16_t *)a->data)[i * SIZE + k]) * (double)weight(w, k, n);
            ((uint16_t *)c->data)[i * SIZE + n] = bf16((float)sum);
        }
}

/* Load the model. 0, or 1 when its weights got no handler. */
API int vllm_model_open(const uint16_t *second, const uint16_t *third)
{
    struct fake_impl b = matrix(FAKE_BF16, behind_handler, SIZE, SIZE);
    struct fake_tensor t = {&b};
    unsigned i;

    for (i = 0; i < sizeof packed / sizeof *packed; i++)
        packed[i] = i * 2654435761u;
    for (i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = bf16(0.01f + 0.001f * (float)(i % 7));
    memcpy(behind_handler, second, sizeof behind_handler);
    memcpy(plain, third, sizeof plain);
    fake_gemm = gemm;
    b.strides[0] = 1, b.strides[1] = SIZE; /* the transposed view, as vLLM hands it over */
    return FAKE_CREATE(&t, HANDLER) != HANDLER;
}

/* One forward pass. 0, or 1 when a result is not where it was asked for. */
API int gpu_model_step(int rows)
{
    struct fake_impl a[4], q = matrix(FAKE_I32, packed, SIZE / 16, 2 * SIZE), s = matrix(FAKE_BF16, scales, SIZE / GROUP, SIZE), w = matrix(FAKE_BF16, plain, SIZE, SIZE), h = {.dtype = FAKE_I64};
    struct fake_tensor ta[4], tq = {&q}, ts = {&s}, tw = {&w}, th = {&h}, ret = {NULL};
    struct fake_optional none = {{NULL}, false};
    int64_t id = HANDLER;
    unsigned seed = (unsigned)rows;
    int i;

    if (rows < 1 || rows > ROWS)
        return 1;
    h.data = &id;
    step_results_begin(rows, &seed);
    memset(x, 0, sizeof x);
    for (i = 0; i < rows * SIZE; i++)
        x[0][i] = bf16((float)((int)((seed + (unsigned)i) * 2654435761u >> 24) - 128) / 64);
    for (i = 0; i < 4; i++) {
        a[i] = matrix(FAKE_BF16, x[i], rows, SIZE);
        ta[i].impl = &a[i];
    }
    FAKE_WNA16(&ta[0], &tq, &ta[1], &ts, &none, &none, 8, NULL);
    FAKE_ONEDNN(&ta[2], &ta[1], &none, &th);
    fake_result = a[3];
    FAKE_LINEAR(&ret, &ta[2], &tw, &none);
    for (i = 1; i < 4; i++)
        step_results_add(x[i], (size_t)rows * SIZE * 2);
    step_results_end(rows);
    return ret.impl != &fake_result;
}
