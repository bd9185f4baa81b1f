/* marlin_layout.c - GPTQ weights to the layout of vLLM's Marlin kernel, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/marlin_layout.h"

#include <string.h>

#include "model/gptq.h"

/* Where in a word the elements of a fragment begin; also the interleave of zero points. */
static const uint8_t order_4bit[] = {0, 16, 4, 20, 8, 24, 12, 28}, order_8bit[] = {0, 16, 8, 24};

static int check(int bits, int64_t rows, int64_t rows_of, int64_t n, struct td_error *err)
{
    if (bits != 4 && bits != 8)
        return td_fail(err, TD_EUNSUPPORTED, "Marlin's layout of %d-bit weights; 4 and 8 bits are supported", bits);
    if (rows <= 0 || n <= 0 || rows > INT32_MAX || n > INT32_MAX || rows % rows_of || n % TD_MARLIN_TILE_N)
        return td_fail(
            err, TD_EINVAL,
            "Marlin's layout of [%lld, %lld]: rows must be a multiple of %lld, columns of %d",
            (long long)rows, (long long)n, (long long)rows_of, TD_MARLIN_TILE_N);
    return TD_OK;
}

/* ---- qweight --------------------------------------------------------------------------------- */

/* Where an element of a tile lies. */
struct place { uint8_t word, bit; };
struct tile { struct place at[TD_MARLIN_TILE_K][TD_MARLIN_TILE_N]; };

static void map_tile(int bits, struct tile *tile)
{
    int r, c;

    for (r = 0; r < TD_MARLIN_TILE_K; r++)
        for (c = 0; c < TD_MARLIN_TILE_N; c++) {
            int thread = c % 8 * 4 + r % 8 / 2, warp = c / 16, half = c % 16 / 8, i = r % 2 + r / 8 * 2;

            if (bits == 4)
                tile->at[r][c] = (struct place){(uint8_t)(thread * 4 + warp), order_4bit[half * 4 + i]};
            else
                tile->at[r][c] = (struct place){(uint8_t)(thread * 8 + warp * 2 + half), order_8bit[i]};
        }
}

/* A matrix, with the two forms in which it lies. */
struct matrix { int bits; int64_t n; const struct tile *tile; };

static uint32_t *tile_words(const struct matrix *m, const uint32_t *runtime, int64_t row, int64_t col)
{
    int64_t index = row / TD_MARLIN_TILE_K * (m->n / TD_MARLIN_TILE_N) + col / TD_MARLIN_TILE_N;

    return (uint32_t *)runtime + index * (TD_MARLIN_TILE_K * TD_MARLIN_TILE_N * m->bits / 32);
}

/* Row `from` of a checkpoint's matrix becomes row `to` of the layout, which was zero. */
static void pack_row(const struct matrix *m, const uint32_t *checkpoint, int64_t from, uint32_t *runtime, int64_t to)
{
    const uint32_t *src = checkpoint + from * m->bits / 32 * m->n, mask = (1u << m->bits) - 1;
    const struct place *at = m->tile->at[to % TD_MARLIN_TILE_K];
    const int shift = (int)(from * m->bits % 32);
    int64_t n0;
    int c;

    for (n0 = 0; n0 < m->n; n0 += TD_MARLIN_TILE_N) {
        uint32_t *words = tile_words(m, runtime, to, n0);

        for (c = 0; c < TD_MARLIN_TILE_N; c++)
            words[at[c].word] |= (src[n0 + c] >> shift & mask) << at[c].bit;
    }
}

static void unpack_row(const struct matrix *m, const uint32_t *runtime, int64_t from, uint32_t *checkpoint, int64_t to)
{
    uint32_t *dst = checkpoint + to * m->bits / 32 * m->n;
    const struct place *at = m->tile->at[from % TD_MARLIN_TILE_K];
    const uint32_t mask = (1u << m->bits) - 1;
    const int shift = (int)(to * m->bits % 32);
    int64_t n0;
    int c;

    for (n0 = 0; n0 < m->n; n0 += TD_MARLIN_TILE_N) {
        const uint32_t *words = tile_words(m, runtime, from, n0);

        for (c = 0; c < TD_MARLIN_TILE_N; c++)
            dst[n0 + c] |= (words[at[c].word] >> at[c].bit & mask) << shift;
    }
}

static int begin(int bits, int64_t k, int64_t n, const int32_t *perm, struct tile *tile, uint32_t *out, struct td_error *err)
{
    int rc = check(bits, k, TD_MARLIN_TILE_K, n, err);

    if (!rc && perm)
        rc = td_gptq_perm_check(perm, k, err);
    if (rc)
        return rc;
    map_tile(bits, tile);
    memset(out, 0, (size_t)(k * bits / 32 * n) * sizeof *out);
    return TD_OK;
}

int td_marlin_repack(int bits, int64_t k, int64_t n, const uint32_t *checkpoint,
                     const int32_t *perm, uint32_t *runtime, struct td_error *err)
{
    struct tile tile;
    const struct matrix m = {bits, n, &tile};
    int rc = begin(bits, k, n, perm, &tile, runtime, err);
    int64_t i;

    for (i = 0; !rc && i < k; i++)
        pack_row(&m, checkpoint, perm ? perm[i] : i, runtime, i);
    return rc;
}

int td_marlin_unrepack(int bits, int64_t k, int64_t n, const uint32_t *runtime, const int32_t *perm,
                       uint32_t *checkpoint, struct td_error *err)
{
    struct tile tile;
    const struct matrix m = {bits, n, &tile};
    int rc = begin(bits, k, n, perm, &tile, checkpoint, err);
    int64_t i;

    for (i = 0; !rc && i < k; i++)
        unpack_row(&m, runtime, i, checkpoint, perm ? perm[i] : i);
    return rc;
}

/* ---- scales and zero points ------------------------------------------------------------------ */

/* The column whose scale lies at column i. */
static int64_t column_at(int64_t groups, int64_t i)
{
    if (groups > 1)
        return i / 64 * 64 + i % 8 * 8 + i % 64 / 8;
    return i / 32 * 32 + i % 32 / 8 * 2 + i % 8 / 2 * 8 + i % 2;
}

static int move_scales(int64_t groups, int64_t n, const uint16_t *from, uint16_t *to, bool permute, struct td_error *err)
{
    int64_t g, i;

    if (groups <= 0 || groups > INT32_MAX || n <= 0 || n > INT32_MAX || n % (groups > 1 ? 64 : 32))
        return td_fail(err, TD_EINVAL,
                       "Marlin's scales [%lld, %lld]: columns must be a multiple of %d",
                       (long long)groups, (long long)n, groups > 1 ? 64 : 32);
    for (g = 0; g < groups; g++, from += n, to += n)
        for (i = 0; i < n; i++)
            if (permute)
                to[i] = from[column_at(groups, i)];
            else
                to[column_at(groups, i)] = from[i];
    return TD_OK;
}

int td_marlin_permute_scales(int64_t groups, int64_t n, const uint16_t *checkpoint, uint16_t *runtime, struct td_error *err)
{
    return move_scales(groups, n, checkpoint, runtime, true, err);
}

int td_marlin_unpermute_scales(int64_t groups, int64_t n, const uint16_t *runtime, uint16_t *checkpoint, struct td_error *err)
{
    return move_scales(groups, n, runtime, checkpoint, false, err);
}

#define SEVERAL 2 /* groups: zero points have no form of their own for one */

/* The bit at which the zero point of column i of the layout's order begins, in word i * bits / 32. */
static int zero_bit(int bits, int64_t i)
{
    return bits == 4 ? order_4bit[i % 8] : order_8bit[i % 4];
}

int td_marlin_pack_zeros(int bits, int64_t groups, int64_t n, const uint32_t *checkpoint,
                         int zero_offset, uint32_t *runtime, struct td_error *err)
{
    const int64_t words = bits > 0 ? n * bits / 32 : 0;
    int rc = check(bits, groups, 1, n, err);
    int64_t g, i;

    for (g = 0; !rc && g < groups; g++, checkpoint += words, runtime += words) {
        memset(runtime, 0, (size_t)words * sizeof *runtime);
        for (i = 0; i < n; i++) {
            int64_t col = column_at(SEVERAL, i);
            uint32_t zero = (checkpoint[col * bits / 32] >> col * bits % 32 & ((1u << bits) - 1)) + (uint32_t)zero_offset;

            if (zero >> bits)
                return td_fail(err, TD_EUNSUPPORTED,
                               "a zero point of %u; Marlin's of %d bits are at most %u", zero, bits,
                               (1u << bits) - 1);
            runtime[i * bits / 32] |= zero << zero_bit(bits, i);
        }
    }
    return rc;
}

int td_marlin_unpack_zeros(int bits, int64_t groups, int64_t n, const uint32_t *runtime,
                           uint32_t *checkpoint, struct td_error *err)
{
    const int64_t words = bits > 0 ? n * bits / 32 : 0;
    int rc = check(bits, groups, 1, n, err);
    int64_t g, i;

    for (g = 0; !rc && g < groups; g++, checkpoint += words, runtime += words) {
        memset(checkpoint, 0, (size_t)words * sizeof *checkpoint);
        for (i = 0; i < n; i++) {
            int64_t col = column_at(SEVERAL, i);

            checkpoint[col * bits / 32] |= (runtime[i * bits / 32] >> zero_bit(bits, i) & ((1u << bits) - 1)) << col * bits % 32;
        }
    }
    return rc;
}

bool td_marlin_zeros_are_symmetric(int bits, int64_t groups, int64_t n, const uint32_t *checkpoint, int zero_offset)
{
    const uint32_t ones = bits == 4 ? 0x11111111u : 0x01010101u, want = ones * ((1u << (bits - 1)) - (uint32_t)zero_offset);
    int64_t i;

    for (i = 0; i < groups * (n * bits / 32); i++)
        if (checkpoint[i] != want)
            return false;
    return true;
}
