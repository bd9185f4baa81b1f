/* sim_kernels.h - simulated kernels, right ones and wrong ones, for tests of bias: products of random
 * 4-bit weights, added as kernels add. SPDX-License-Identifier: Apache-2.0
 *
 * A product is computed once, in double, by parts of K (chunks); each kernel adds its chunks in its own
 * way, rounds to f16, and is held against the double sum as the judge holds it (replayer/judge.h). */
#ifndef TD_TESTS_UNIT_DIFFER_SIM_KERNELS_H
#define TD_TESTS_UNIT_DIFFER_SIM_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/f16.h"
#include "model/dtype.h"
#include "replayer/judge_slices.h"

#define SIM_K 512
#define SIM_CHUNK 32
#define SIM_CHUNKS (SIM_K / SIM_CHUNK)
#define SIM_GROUP 128
#define SIM_MOST_M 8
#define SIM_MOST_N 256

/* ---- random numbers -------------------------------------------------------------------------- */

static uint64_t sim_state;

static uint64_t sim_random(void)
{
    sim_state += 0x9e3779b97f4a7c15u;
    uint64_t z = sim_state;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double sim_uniform(void) { return (double)(sim_random() >> 11) * 0x1p-53; }

static double sim_normal(void)
{
    return sqrt(-2 * log(sim_uniform() + 0x1p-60)) * cos(6.283185307179586 * sim_uniform());
}

/* ---- weights, activations, products ---------------------------------------------------------- */

struct sim_layer {
    int n;
    float q[SIM_K][SIM_MOST_N];                    /* quant - zero point */
    float scale[SIM_K / SIM_GROUP][SIM_MOST_N];    /* f16 */
    float outlier[SIM_K];                          /* how large each channel of activations is */
    float mean[SIM_K];                             /* and its mean over ops, beside a deviation of 1 */
};

enum sim_weights { SIM_EXACT, SIM_BF16_SCALES, SIM_F16_WEIGHTS, SIM_N_WEIGHTS };

/* One op: the partial sums of each chunk of K, by each way of reading the weights. */
struct sim_op {
    int m, n;
    double part[SIM_N_WEIGHTS][SIM_CHUNKS][SIM_MOST_M][SIM_MOST_N], mag[SIM_MOST_M][SIM_MOST_N];
};

static float sim_half(double v) { return td_f16_load(td_f32_to_f16((float)v)); }

static float sim_bf16(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&v, &bits, sizeof bits);
    return v;
}

/* massive: one channel of activations is 30 times as large as the others, as in real models. alike: activations are nearly the same in
 * all ops, so that what weights lose repeats. */
static void sim_layer_init(struct sim_layer *w, int n, int massive, int alike)
{
    int k, j, g;

    w->n = n;
    for (k = 0; k < SIM_K; k++) {
        w->outlier[k] = 1;
        w->mean[k] = alike ? (float)(5 * sim_normal()) : 0;
        for (j = 0; j < n; j++)
            w->q[k][j] = (float)(int)(sim_random() % 16) - 8;
    }
    if (massive)
        w->outlier[sim_random() % SIM_K] = 30;
    for (g = 0; g < SIM_K / SIM_GROUP; g++)
        for (j = 0; j < n; j++)
            w->scale[g][j] = sim_half(0.002 + 0.004 * sim_uniform());
}

static void sim_op_init(struct sim_op *op, const struct sim_layer *w, int m)
{
    int i, j, k, v;

    memset(op, 0, sizeof *op);
    op->m = m;
    op->n = w->n;
    for (k = 0; k < SIM_K; k++) {
        double a[SIM_MOST_M];

        for (i = 0; i < m; i++)
            a[i] = (double)sim_half((sim_normal() + (double)w->mean[k]) * (double)w->outlier[k]);
        for (j = 0; j < w->n; j++) {
            const float scale = w->scale[k / SIM_GROUP][j];
            const double exact = (double)w->q[k][j] * (double)scale;
            const double weight[SIM_N_WEIGHTS] = {exact, (double)w->q[k][j] * (double)sim_bf16(scale), (double)sim_half(exact)};

            for (i = 0; i < m; i++) {
                for (v = 0; v < SIM_N_WEIGHTS; v++)
                    op->part[v][k / SIM_CHUNK][i][j] += a[i] * weight[v];
                op->mag[i][j] += fabs(a[i] * exact);
            }
        }
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* 8 lanes, 16 lanes: sums of every 8th or 16th chunk, as a vector of AVX2 or AVX-512 holds them, then a tree. */
enum sim_adds {
    SIM_F32, SIM_F32_BACKWARDS, SIM_F32_PAIRS, SIM_F32_8_LANES, SIM_F32_16_LANES, SIM_F32_CUT, SIM_SPLIT_K, SIM_HALVES, SIM_N_ADDS
};
enum sim_bug {
    SIM_RIGHT, SIM_COLUMN_4TH, SIM_HALF_UNIT_16TH, SIM_UNIT_16TH, SIM_4_UNITS_64TH, SIM_UP_8TH, SIM_K_SLICE,
    SIM_LAST_TILE, SIM_LAST_COLUMN, SIM_LAST_COLUMN_UNIT, SIM_LAST_ROW, SIM_ROWS_EVEN, SIM_CUT_RESULT, SIM_FAR_OFF, SIM_N_BUGS
};
struct sim_kernel { enum sim_adds adds; enum sim_weights weights; enum sim_bug bug; };

static double sim_add_lanes(const double part[SIM_CHUNKS], int lanes)
{
    float lane[SIM_CHUNKS] = {0};
    int c;

    for (c = 0; c < SIM_CHUNKS; c++)
        lane[c % lanes] += (float)part[c];
    for (; lanes > 1; lanes /= 2)
        for (c = 0; c < lanes / 2; c++)
            lane[c] += lane[c + lanes / 2];
    return (double)lane[0];
}

static float sim_cut(double v) /* to a float, towards 0 */
{
    const float f = (float)v;

    return fabs((double)f) > fabs(v) ? nextafterf(f, 0) : f;
}

static double sim_add(enum sim_adds how, const double part[SIM_CHUNKS])
{
    int order[SIM_CHUNKS], c, other, tmp;
    float sum = 0, four[4] = {0};

    if (how == SIM_F32_8_LANES || how == SIM_F32_16_LANES)
        return sim_add_lanes(part, how == SIM_F32_8_LANES ? 8 : 16);
    for (c = 0; c < SIM_CHUNKS; c++)
        order[c] = how == SIM_F32_BACKWARDS ? SIM_CHUNKS - 1 - c : c;
    for (c = SIM_CHUNKS - 1; c > 0 && how == SIM_HALVES; c--) {
        other = (int)(sim_random() % (uint64_t)(c + 1));
        tmp = order[c], order[c] = order[other], order[other] = tmp;
    }
    for (c = 0; c < SIM_CHUNKS; c++) {
        const double p = part[order[c]];

        if (how == SIM_HALVES)
            sum = sim_half((double)sum + (double)sim_half(p));
        else if (how == SIM_F32_CUT)
            sum = sim_cut((double)sum + (double)sim_cut(p));
        else if (how == SIM_F32_PAIRS || how == SIM_SPLIT_K)
            four[how == SIM_SPLIT_K ? c / 4 : c % 4] += (float)p;
        else
            sum += (float)p;
    }
    return how == SIM_F32_PAIRS || how == SIM_SPLIT_K ? (double)((four[0] + four[1]) + (four[2] + four[3])) : (double)sum;
}

/* Towards 0. */
static double sim_cut_half(double v)
{
    const float half = sim_half(v);

    return fabs((double)half) > fabs(v) ? (double)td_f16_load((uint16_t)(td_f32_to_f16(half) - 1)) : (double)half;
}

static double sim_spoil(enum sim_bug bug, double v, int i, int j, int m, int n)
{
    switch (bug) {
    case SIM_COLUMN_4TH: return j % 4 == 0 ? v * 1.001 : v;
    case SIM_HALF_UNIT_16TH: return j % 16 == 3 ? v * (1 + 0x1p-12) : v;
    case SIM_UNIT_16TH: return j % 16 == 3 ? v * (1 + 0x1p-11) : v;
    case SIM_4_UNITS_64TH: return j % 64 == 17 ? v * (1 + 0x1p-9) : v;
    case SIM_LAST_TILE: return j >= n - 32 ? v * 1.001 : v;
    case SIM_LAST_COLUMN: return j == n - 1 ? v * 1.01 : v;
    case SIM_LAST_COLUMN_UNIT: return j == n - 1 ? v * (1 + 0x1p-11) : v;
    case SIM_LAST_ROW: return i == m - 1 && m > 1 ? v * (1 + 0x1p-11) : v;
    case SIM_ROWS_EVEN: return i % 2 == 0 ? v * 1.001 : v;
    default: return v;
    }
}

/* The output of a kernel, as sums over slices. */
static void sim_run(const struct sim_op *op, const struct sim_kernel *kernel, struct td_slices *out)
{
    struct td_judge_slices s;
    double row[SIM_MOST_N];
    int i, j, c;

    if (td_judge_slices_init(&s, op->m, op->n, NULL))
        abort();
    for (i = 0; i < op->m; i++) {
        for (j = 0; j < op->n; j++) {
            double part[SIM_CHUNKS], r1 = 0, y, d;

            for (c = 0; c < SIM_CHUNKS; c++) {
                r1 += op->part[SIM_EXACT][c][i][j];
                part[c] = op->part[kernel->weights][c][i][j] * (kernel->bug == SIM_K_SLICE && c < SIM_CHUNKS / 2 ? 0.999 : 1);
            }
            d = 0x1p-11 * fabs(r1) + 0x1p-24 * sqrt(SIM_K) * op->mag[i][j] + 0x1p-25;
            y = sim_spoil(kernel->bug, sim_add(kernel->adds, part), i, j, op->m, op->n);
            if (kernel->bug == SIM_FAR_OFF)
                y += 50 * d * sim_normal();
            y = kernel->bug == SIM_CUT_RESULT ? sim_cut_half(y) : (double)sim_half(y);
            if (kernel->bug == SIM_UP_8TH && j % 8 == 5)
                y = (double)td_f16_load((uint16_t)(td_f32_to_f16((float)y) + (y >= 0 ? 1 : -1)));
            td_judge_slices_put(&s, j, y - r1, d);
            row[j] = r1;
        }
        td_judge_slices_end_row(&s, i, row);
    }
    td_judge_slices_take(&s, out);
    td_judge_slices_release(&s);
}

#endif
