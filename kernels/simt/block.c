/* block.c - the threads of a block: run them until all wait, let those go on that have met, name the missing ones.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stricter than a GPU on purpose: a barrier counts every thread of the block, also one that has returned
 * (a GPU forgives that, the CUDA guide does not), and threads that meet must stand in the same line. */
#include "kernels/simt/block.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels/simt/fibre.h"

enum state { READY, AT_BARRIER, AT_WARP, LEFT };

struct thread {
    enum state state;
    struct td_simt_place place;
    struct td_simt_site site;        /* where it waits */
    uint64_t mask, value, result;    /* of a warp function */
    int from;
};

static struct {                      /* of the launch that runs; launch.c holds a lock meanwhile */
    struct td_simt_run *run;
    struct thread thread[TD_SIMT_MAX_THREADS];
    struct thread *self;
} block;

struct td_simt_place td_simt_now;

uint32_t td_simt_random(struct td_simt_run *run, uint32_t n)
{
    uint64_t z = run->random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

/* ---- inside a thread ------------------------------------------------------------------------- */

TD_FIBRE_NO_RETURN static void thread_main(void *arg)
{
    struct thread *t = arg;

    block.run->kernel->run(block.run->params);
    t->state = LEFT;
    td_fibre_yield();
}

static void wait_as(enum state state, struct td_simt_site site)
{
    block.self->state = state;
    block.self->site = site;
    td_fibre_yield();
}

void td_simt_barrier(struct td_simt_site site)
{
    wait_as(AT_BARRIER, site);
}

uint64_t td_simt_meet_warp(struct td_simt_site site, uint64_t mask, uint64_t value, int from)
{
    struct thread *self = block.self;

    self->mask = mask == 0xffffffffu && block.run->warp == 64 ? UINT64_MAX : mask;
    self->value = value;
    self->from = from;
    wait_as(AT_WARP, site);
    return self->result;
}

/* ---- who has met ----------------------------------------------------------------------------- */

static bool same_site(const struct td_simt_site *a, const struct td_simt_site *b)
{
    return a->line == b->line && !strcmp(a->file, b->file) && !strcmp(a->name, b->name);
}

/* A thread that does not wait where t waits; NULL: all do. */
static const struct thread *missing_at_barrier(const struct thread *t)
{
    for (int i = 0; i < block.run->n_threads; i++)
        if (block.thread[i].state != AT_BARRIER || !same_site(&block.thread[i].site, &t->site))
            return &block.thread[i];
    return NULL;
}

/* Lanes of t's warp, from its first thread on: the last warp may have fewer. */
static int warp_of(const struct thread *t, struct thread **first)
{
    const int at = (int)(t - block.thread), start = at / block.run->warp * block.run->warp, left = block.run->n_threads - start;

    *first = &block.thread[start];
    return left < block.run->warp ? left : block.run->warp;
}

static const struct thread *missing_in_warp(const struct thread *t)
{
    struct thread *warp;
    const int n = warp_of(t, &warp);

    for (int i = 0; i < n; i++)
        if (t->mask >> i & 1 && (warp[i].state != AT_WARP || warp[i].mask != t->mask || !same_site(&warp[i].site, &t->site)))
            return &warp[i];
    return NULL;
}

static const struct thread *find_missing_thread(const struct thread *t)
{
    return t->state == AT_BARRIER ? missing_at_barrier(t) : missing_in_warp(t);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

static int fail_at_site(const struct thread *t, struct td_error *err, const char *what)
{
    const struct td_simt_place *p = &t->place;

    return td_fail(err, TD_EINVAL, "%s: %s at %s:%d in thread (%u,%u,%u) of block (%u,%u,%u): %s",
                   block.run->kernel->symbol, t->site.name, t->site.file, t->site.line, p->thread.x,
                   p->thread.y, p->thread.z, p->block.x, p->block.y, p->block.z, what);
}

static int fail_missing_threads(const struct thread *t, const struct thread *missing, struct td_error *err)
{
    const struct td_simt_dim *m = &missing->place.thread;
    char what[240];

    if (missing->state == LEFT)
        snprintf(what, sizeof what, "thread (%u,%u,%u) never comes, it has left the kernel", m->x, m->y, m->z);
    else
        snprintf(what, sizeof what, "thread (%u,%u,%u) never comes, it waits in %s at %s:%d%s",
                 m->x, m->y, m->z, missing->site.name, missing->site.file, missing->site.line,
                 missing->state == AT_WARP && t->state == AT_WARP && missing->mask != t->mask
                     ? " with another mask"
                     : "");
    return fail_at_site(t, err, what);
}

/* ---- warp functions -------------------------------------------------------------------------- */

static uint64_t ballot(const struct thread *warp, int n, uint64_t mask)
{
    uint64_t bits = 0;

    for (int i = 0; i < n; i++)
        if (mask >> i & 1 && warp[i].value)
            bits |= 1ull << i;
    return bits;
}

/* All lanes of the mask have come: give each lane its result. */
static int exchange(const struct thread *any, struct td_error *err)
{
    struct thread *warp;
    const int n = warp_of(any, &warp);
    const uint64_t mask = any->mask, bits = ballot(warp, n, mask);

    for (int i = 0; i < n; i++) {
        const int from = warp[i].from;

        if (!(mask >> i & 1))
            continue;
        if (from >= 0 && (from >= n || !(mask >> from & 1)))
            return fail_at_site(&warp[i], err, "it reads a lane that takes no part");
        warp[i].result = from < 0 ? bits : warp[from].value;
    }
    for (int i = 0; i < n; i++)
        if (mask >> i & 1)
            warp[i].state = READY;
    return TD_OK;
}

/* No thread runs. Make those ready that have met. */
static int meet_warp(struct td_error *err)
{
    struct thread *waits = NULL;
    bool met = false;
    int i, rc;

    for (i = 0; i < block.run->n_threads; i++) {
        struct thread *t = &block.thread[i];

        if (t->state != AT_WARP)
            continue;
        if (!(t->mask >> t->place.lane & 1))
            return fail_at_site(t, err, "its own lane is not in the mask");
        if (missing_in_warp(t))
            continue;
        if ((rc = exchange(t, err)))
            return rc;
        met = true;
    }
    for (i = 0; i < block.run->n_threads && !waits; i++)
        if (block.thread[i].state == AT_BARRIER || block.thread[i].state == AT_WARP)
            waits = &block.thread[i];
    if (met || !waits)
        return TD_OK;
    if (find_missing_thread(waits))
        return fail_missing_threads(waits, find_missing_thread(waits), err);
    for (i = 0; i < block.run->n_threads; i++)
        block.thread[i].state = READY;
    return TD_OK;
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static void prepare_threads(struct td_simt_run *run, struct td_simt_dim at)
{
    for (int i = 0; i < run->n_threads; i++) {
        const uint32_t u = (uint32_t)i, row = u / run->block.x;
        struct thread *t = &block.thread[i];

        t->state = READY;
        t->place =
            (struct td_simt_place){{u % run->block.x, row % run->block.y, row / run->block.y},
                                   at,
                                   run->block,
                                   run->grid,
                                   run->warp,
                                   i % run->warp};
        td_fibre_start(i, thread_main, t);
    }
}

/* Run every thread that is ready, in a random order, until it waits or returns. Returns how many ran. */
static int run_ready(struct td_simt_run *run)
{
    static uint16_t order[TD_SIMT_MAX_THREADS];
    int n = 0;

    for (int i = 0; i < run->n_threads; i++)
        if (block.thread[i].state == READY) {
            const uint32_t place = td_simt_random(run, (uint32_t)++n);

            order[n - 1] = order[place];
            order[place] = (uint16_t)i;
        }
    for (int i = 0; i < n; i++) {
        block.self = &block.thread[order[i]];
        td_simt_now = block.self->place;
        td_fibre_resume(order[i]);
    }
    return n;
}

int td_simt_block_run(struct td_simt_run *run, struct td_simt_dim at, struct td_error *err)
{
    int rc = TD_OK;

    block.run = run;
    prepare_threads(run, at);
    while (!rc && run_ready(run))
        rc = meet_warp(err);
    return rc;
}
