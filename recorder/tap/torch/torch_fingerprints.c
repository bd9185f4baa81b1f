/* torch_fingerprints.c - weights that a server keeps in a form that the tap cannot read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/torch/torch_fingerprints.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define KEPT 8192u                     /* a model has some hundreds */

static struct {
    _Atomic uint64_t id;
    _Atomic(const struct td_weight_fingerprint *) fingerprint;
} kept[KEPT];
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

/* ---- sampling -------------------------------------------------------------------------------- */

bool tap_torch_fingerprint(struct td_weight_fingerprint *p, const struct tap_torch_tensor *w,
                           int rows, tap_copy_bytes *copy, void *user)
{
    const char *dtype = w->ndim == 2 && w->data ? tap_torch_dtype_name(w->dtype) : NULL;
    uint64_t size = tap_torch_dtype_bytes(w->dtype), words, per, j;
    unsigned i;

    if (!dtype || (size != 2 && size != 4))
        return false;
    memset(p, 0, sizeof *p);
    p->rows = w->sizes[rows];
    p->cols = w->sizes[1 - rows];
    snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
    words = (uint64_t)p->rows * (uint64_t)p->cols * size / 4, per = 4 / size;
    for (i = 0; i < TD_FINGERPRINT_WORDS && words; i++)
        for (j = 0; j < per; j++) {
            uint64_t at = td_fingerprint_at(words, i) * per + j, row = at / (uint64_t)p->cols,
                     col = at % (uint64_t)p->cols;

            if (!copy((uint8_t *)&p->word[i] + j * size,
                      (const uint8_t *)w->data + (row * (uint64_t)w->strides[rows] +
                                                  col * (uint64_t)w->strides[1 - rows]) *
                                                     size,
                      size, user))
                return false;
        }
    return words > 0;
}

static bool copy_here(void *to, const void *from, size_t n, void *nothing)
{
    (void)nothing;
    memcpy(to, from, n);
    return true;
}

bool tap_torch_fingerprint_here(struct td_weight_fingerprint *p, const struct tap_torch_tensor *w,
                                int rows)
{
    return tap_torch_fingerprint(p, w, rows, copy_here, NULL);
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* The place of this id in the table, or the free one where it would be; KEPT: neither. */
static unsigned place_of(uint64_t id)
{
    unsigned i = (unsigned)((id >> 4) * 0x9e3779b97f4a7c15u >> 40) % KEPT, tries;

    for (tries = 0; tries < KEPT; tries++, i = (i + 1) % KEPT) {
        uint64_t there = atomic_load_explicit(&kept[i].id, memory_order_acquire);

        if (!there || there == id)
            return i;
    }
    return KEPT;
}

const struct td_weight_fingerprint *tap_torch_fingerprint_of(uint64_t id)
{
    unsigned i = id ? place_of(id) : KEPT;

    return i < KEPT ? atomic_load_explicit(&kept[i].fingerprint, memory_order_acquire) : NULL;
}

void tap_torch_fingerprint_keep(uint64_t id, const struct td_weight_fingerprint *p)
{
    unsigned i;

    pthread_mutex_lock(&keeping);
    i = place_of(id);
    if (i < KEPT) {
        atomic_store_explicit(&kept[i].fingerprint, p, memory_order_release);
        atomic_store_explicit(&kept[i].id, id, memory_order_release);
    }
    pthread_mutex_unlock(&keeping);
}
