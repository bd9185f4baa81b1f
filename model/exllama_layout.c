/* exllama_layout.c - GPTQ weights to the layout of vLLM's exllama kernels, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/exllama_layout.h"

#include <stdbool.h>
#include <string.h>

#include "model/gptq.h"

/* The bit of a word at which element j begins. */
static const uint8_t checkpoint_4bit[] = {0, 4, 8, 12, 16, 20, 24, 28}, exllama_4bit[] = {0, 16, 4, 20, 8, 24, 12, 28};
static const uint8_t both_8bit[] = {0, 8, 16, 24};

/* Rows of n elements, `pack` of them in a word, from one order within words to another. */
struct move { int bits, pack; int64_t n; const uint8_t *from_bit, *to_bit; };

/* Row `from` of src becomes row `to` of dst, which was zero. */
static void move_row(const struct move *m, const uint32_t *src, int64_t from, uint32_t *dst, int64_t to)
{
    const uint32_t mask = (1u << m->bits) - 1;
    const int take = m->from_bit[from % m->pack], put = m->to_bit[to % m->pack];
    int64_t i;

    src += from / m->pack * m->n;
    dst += to / m->pack * m->n;
    for (i = 0; i < m->n; i++)
        dst[i] |= (src[i] >> take & mask) << put;
}

static int check_sizes(int bits, int64_t k, int64_t n, const int32_t *perm, struct td_error *err)
{
    if (bits != 4 && bits != 8)
        return td_fail(err, TD_EUNSUPPORTED, "exllama's layout of %d-bit weights; 4 and 8 bits are supported", bits);
    if (k <= 0 || n <= 0 || k > INT32_MAX || n > INT32_MAX || k % (32 / bits))
        return td_fail(
            err, TD_EINVAL,
            "exllama's layout of weights [%lld, %lld] of %d bits: sizes that it cannot have",
            (long long)k, (long long)n, bits);
    return perm ? td_gptq_perm_check(perm, k, err) : TD_OK;
}

static void move_rows(const struct move *m, int64_t k, const uint32_t *qweight, const int32_t *perm, bool sort, uint32_t *out)
{
    int64_t i;

    memset(out, 0, (size_t)(k / m->pack * m->n) * sizeof *out);
    for (i = 0; i < k; i++)
        move_row(m, qweight, sort ? perm[i] : i, out, sort ? i : perm[i]);
}

/* The second and the third quarter of each word's halves (bits 4), or of the word (bits 8), trade places. */
static uint32_t trade(uint32_t v, uint32_t bits)
{
    const uint32_t t = (v ^ (v >> bits)) & (bits == 4 ? 0x00F000F0 : 0x0000FF00);

    return v ^ t ^ (t << bits);
}

/* Without an order each row stays in its word: of 4 bits, the even ones go to its lower half and the odd ones to its upper. */
static void move_words(int bits, size_t words, const uint32_t *from, bool sort, uint32_t *out)
{
    if (bits == 8) {
        memcpy(out, from, words * sizeof *out);
        return;
    }
    for (size_t i = 0; i < words; i++)
        out[i] = sort ? trade(trade(from[i], 4), 8) : trade(trade(from[i], 8), 4);
}

int td_exllama_shuffle(int bits, int64_t k, int64_t n, const uint32_t *qweight, const int32_t *perm,
                       uint32_t *out, struct td_error *err)
{
    struct move m = {bits, 4, n, both_8bit, both_8bit};
    int rc = check_sizes(bits, k, n, perm, err);

    if (rc)
        return rc;
    if (!perm) {
        move_words(bits, (size_t)(k / (32 / bits) * n), qweight, true, out);
        return TD_OK;
    }
    if (bits == 4)
        m.pack = 8, m.from_bit = checkpoint_4bit, m.to_bit = exllama_4bit;
    move_rows(&m, k, qweight, perm, true, out);
    return TD_OK;
}

int td_exllama_unshuffle(int bits, int64_t k, int64_t n, const uint32_t *qweight,
                         const int32_t *perm, uint32_t *out, struct td_error *err)
{
    struct move m = {bits, 4, n, both_8bit, both_8bit};
    int rc = check_sizes(bits, k, n, perm, err);

    if (rc)
        return rc;
    if (!perm) {
        move_words(bits, (size_t)(k / (32 / bits) * n), qweight, false, out);
        return TD_OK;
    }
    if (bits == 4)
        m.pack = 8, m.from_bit = exllama_4bit, m.to_bit = checkpoint_4bit;
    move_rows(&m, k, qweight, perm, false, out);
    return TD_OK;
}
