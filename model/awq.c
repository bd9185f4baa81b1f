/* awq.c - AWQ's packing of 4-bit weights, turned into GPTQ's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "model/awq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PACK 8

static uint32_t word_at(const void *words, int64_t i)
{
    uint32_t w;

    memcpy(&w, (const unsigned char *)words + i * 4, 4);
    return w;
}

/* Output j of the eight in a word. */
static uint32_t nibble(uint32_t word, int j)
{
    return word >> 4 * (j / 2 + j % 2 * 4) & 15;
}

void td_awq_unpack_weight(int64_t k, int64_t n, const void *awq, uint32_t *out)
{
    memset(out, 0, (size_t)(k / PACK * n) * 4);
    for (int64_t row = 0; row < k; row++)
        for (int64_t i = 0; i < n / PACK; i++) {
            const uint32_t word = word_at(awq, row * (n / PACK) + i);
            uint32_t *to = out + row / PACK * n + i * PACK;

            for (int j = 0; j < PACK; j++)
                to[j] |= nibble(word, j) << 4 * (row % PACK);
        }
}

void td_awq_unpack_zeros(int64_t groups, int64_t n, const void *awq, uint32_t *out)
{
    for (int64_t i = 0; i < groups * (n / PACK); i++) {
        const uint32_t word = word_at(awq, i);

        out[i] = 0;
        for (int j = 0; j < PACK; j++)
            out[i] |= nibble(word, j) << 4 * j;
    }
}

unsigned td_awq_q(const void *awq, int64_t n_all, int64_t row, int64_t n)
{
    return nibble(word_at(awq, row * (n_all / PACK) + n / PACK), (int)(n % PACK));
}

/* ---- loading --------------------------------------------------------------------------------- */

static int require_tensor(const struct td_safetensors *st, const char *layer, const char *part,
                          enum td_dtype dtype, int64_t d0, int64_t d1,
                          const struct td_st_tensor **out, struct td_error *err)
{
    char name[512];

    if (snprintf(name, sizeof name, "%s.%s", layer, part) >= (int)sizeof name)
        return td_fail(err, TD_ELIMIT, "%.40s...: the name of the layer is too long", layer);
    if (d0)
        return td_safetensors_require(st, name, dtype, d0, d1, out, err);
    *out = td_safetensors_find(st, name);
    if (!*out)
        return td_fail(err, TD_ENOTFOUND, "tensor \"%s\" is missing", name);
    if ((*out)->dtype != dtype || (*out)->ndim != 2 || (*out)->shape[0] > INT32_MAX || (*out)->shape[1] > INT32_MAX / PACK)
        return td_fail(err, TD_EINVAL,
                       "tensor \"%s\": expected %s [K, N/8], found %s of %d dimensions", name,
                       td_dtype_name(dtype), (*out)->dtype_name, (*out)->ndim);
    return TD_OK;
}

/* Unpack qzeros; borrow scales, which are a gigabyte of a large model: they are copied (behind qzeros) only
 * if they are misaligned. */
static int load_groups(const struct td_st_tensor *qz, const struct td_st_tensor *sc,
                       struct td_gptq_weight *w, struct td_error *err)
{
    const bool copy = (uintptr_t)sc->data % sizeof *w->scales;
    uint32_t *words = malloc(qz->size_bytes + (copy ? sc->size_bytes : 0));

    if (!words)
        return td_fail(err, TD_ENOMEM, "out of memory");
    w->owned = words;
    td_awq_unpack_zeros(w->groups, w->n, qz->data, words);
    w->qzeros = words;
    w->scales = copy ? memcpy(words + qz->size_bytes / 4, sc->data, sc->size_bytes) : sc->data;
    return TD_OK;
}

int td_awq_weight_load(const struct td_safetensors *st, const char *layer, int group_size,
                       struct td_gptq_weight *out, struct td_error *err)
{
    const struct td_st_tensor *qw, *qz, *sc;
    struct td_gptq_weight w = {.bits = 4};
    int rc;

    memset(out, 0, sizeof *out);
    if ((rc = require_tensor(st, layer, "qweight", TD_DT_I32, 0, 0, &qw, err)))
        return rc;
    w.k = qw->shape[0];
    w.n = qw->shape[1] * PACK;
    w.group_size = group_size == -1 ? (int)w.k : group_size;
    if ((rc = td_gptq_check_sizes(4, w.group_size, w.k, w.n, err))) {
        td_fail_at(err, "%s", layer);
        return rc;
    }
    w.groups = w.k / w.group_size;
    if ((rc = require_tensor(st, layer, "qzeros", TD_DT_I32, w.groups, w.n / PACK, &qz, err)) ||
        (rc = require_tensor(st, layer, "scales", TD_DT_F16, w.groups, w.n, &sc, err)) ||
        (rc = load_groups(qz, sc, &w, err)))
        return rc;
    w.awq = qw->data;
    *out = w;
    return TD_OK;
}
