/* gpu_weight_sets.c - the weights of each layer: found again by their addresses, and sent once an
 * arm.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_weight_sets.h"

static struct tap_gpu_weight_set table[TAP_GPU_WEIGHT_SETS];
/* Numbers of sets whose memory has another content now, by slot. */
static _Atomic uint32_t stale[TAP_GPU_WEIGHT_SETS];
/* Numbers of sets that the recorder refused, by slot. */
static _Atomic uint32_t refused[TAP_GPU_WEIGHT_SETS];
/* Numbers of sets that are no weights, by slot. */
static _Atomic uint32_t activation[TAP_GPU_WEIGHT_SETS];
static uint32_t numbers;
static uint32_t arm;                  /* how often the table was emptied */
/* The set whose chunks go now, and the step in which its layer ran last. */
static struct { struct tap_gpu_weight_set *set; uint64_t step; } unfinished;

/* A set whose layer does not run any more keeps others waiting for so many steps. */
#define UNFINISHED_STEPS 32

void tap_gpu_weight_sets_clear(void)
{
    memset(table, 0, sizeof table);
    memset((void *)stale, 0, sizeof stale);
    memset((void *)refused, 0, sizeof refused);
    memset((void *)activation, 0, sizeof activation);
    numbers = 0;
    arm++;
    memset(&unfinished, 0, sizeof unfinished);
}

static uint64_t hash_number(uint64_t h, uint64_t n)
{
    return (h ^ n) * 0x100000001b3u;
}

static uint64_t hash_word(uint64_t h, const char *word)
{
    while (*word)
        h = hash_number(h, (uint8_t)*word++);
    return hash_number(h, 256);
}

static uint64_t hash_operand(uint64_t h, const struct td_gpu_operand *o)
{
    int i;

    h = hash_word(h, o->dtype);
    for (i = 0; i < o->ndim; i++)
        h = hash_number(h, (uint64_t)o->shape[i]);
    return h;
}

bool tap_gpu_weight_set_read(struct tap_gpu_weight_set *s, const struct td_gpu_work *w)
{
    int i, n = 0;

    memset(s, 0, sizeof *s);
    /* Products of one layout are of one kind, by whichever of several kernels, and their weights have one order. */
    s->form = hash_word(0xcbf29ce484222325u, w->beside ? w->adapter->kind : "");
    s->form = hash_word(s->form, w->adapter->layout);
    for (i = 0; i < w->n_op; i++) {
        const struct td_gpu_operand *o = &w->op[i];

        if (o->use != TD_GPU_WEIGHT || !o->address)
            continue;
        if (n == TAP_MAX_WEIGHTS)
            return false;
        s->address[n] = o->address;
        s->bytes[n++] = o->bytes;
        s->form = hash_operand(s->form, o);
        s->total += o->bytes;
    }
    return n > 0;
}

/* Give the set a new number if its number no longer stands for what its memory holds. NULL: no
 * numbers are left. */
static struct tap_gpu_weight_set *renew_number(struct tap_gpu_weight_set *s)
{
    if (s->number && atomic_load_explicit(&stale[s->slot], memory_order_relaxed) != s->number)
        return s;
    if (numbers + 1 >= TAP_GPU_WEIGHT_NUMBERS)
        return NULL;
    s->number = ++numbers;
    s->staged = 0;
    return s;
}

void tap_gpu_weight_set_mark_stale(const struct tap_gpu_weight_set *s)
{
    atomic_store_explicit(&stale[s->slot], s->number, memory_order_relaxed);
}

void tap_gpu_weight_set_refuse(const struct tap_gpu_weight_set *s)
{
    atomic_store_explicit(&refused[s->slot], s->number, memory_order_relaxed);
}

bool tap_gpu_weight_set_is_refused(const struct tap_gpu_weight_set *s)
{
    return atomic_load_explicit(&refused[s->slot], memory_order_relaxed) == s->number;
}

void tap_gpu_weight_set_mark_activation(const struct tap_gpu_weight_set *s)
{
    atomic_store_explicit(&activation[s->slot], s->number, memory_order_relaxed);
}

bool tap_gpu_weight_set_is_activation(const struct tap_gpu_weight_set *s)
{
    return atomic_load_explicit(&activation[s->slot], memory_order_relaxed) == s->number;
}

bool tap_gpu_weight_set_may_go(struct tap_gpu_weight_set *s, uint64_t step)
{
    if (unfinished.set && unfinished.set != s && step - unfinished.step > UNFINISHED_STEPS) {
        tap_gpu_weight_set_mark_stale(unfinished.set);
        unfinished.set = NULL;
    }
    if (unfinished.set && unfinished.set != s)
        return false;
    unfinished.set = s;
    unfinished.step = step;
    return true;
}

void tap_gpu_weight_set_went(const struct tap_gpu_weight_set *s)
{
    if (s->staged == s->total && unfinished.set == s)
        unfinished.set = NULL;
}

uint64_t tap_gpu_weight_set_sample(const struct tap_gpu_weight_set *s, int t, uint64_t *n)
{
    const uint64_t at = s->bytes[t] / 2 / TAP_GPU_SAMPLE_EACH * TAP_GPU_SAMPLE_EACH;

    *n = s->bytes[t] - at < TAP_GPU_SAMPLE_EACH ? s->bytes[t] - at : TAP_GPU_SAMPLE_EACH;
    return at;
}

struct tap_gpu_weight_set *tap_gpu_weight_set_find(const struct td_gpu_work *w)
{
    struct tap_gpu_weight_set key;
    unsigned i, tries;

    if (!tap_gpu_weight_set_read(&key, w))
        return NULL;
    i = (unsigned)((key.address[0] >> 8) * 0x9e3779b97f4a7c15u >> 40);
    for (tries = 0; tries < TAP_GPU_WEIGHT_SETS; tries++, i++) {
        struct tap_gpu_weight_set *s = &table[i % TAP_GPU_WEIGHT_SETS];

        if (!s->number) {
            *s = key;
            s->slot = i % TAP_GPU_WEIGHT_SETS;
            return renew_number(s);
        }
        if (s->form == key.form && !memcmp(s->address, key.address, sizeof key.address) &&
            !memcmp(s->bytes, key.bytes, sizeof key.bytes))
            return renew_number(s);
    }
    return NULL;
}

/* A set keeps its place until the table is emptied. */
struct tap_gpu_weight_set *tap_gpu_weight_set_find_again(struct tap_gpu_weight_set_found *found,
                                                         const struct td_gpu_work *w)
{
    if (found->set && found->arm == arm)
        return renew_number(found->set);
    *found = (struct tap_gpu_weight_set_found){tap_gpu_weight_set_find(w), arm};
    return found->set;
}
