/* open_sides.c - open the fixtures of a comparison, and read them side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/open_sides.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define MOST_THREADS 8 /* each has a frame in memory */

/* Threads take the next place in turn. After a failure no further one is begun; those before it are under way. */
struct reading {
    struct td_side *side; size_t n;
    struct td_error *why;      /* [n] */
    atomic_size_t next;
    atomic_bool failed;
};

static void *read_sides(void *arg)
{
    struct reading *r = arg;
    size_t i;

    while (!atomic_load(&r->failed) && (i = atomic_fetch_add(&r->next, 1)) < r->n)
        if (td_side_read(&r->side[i], &r->why[i]))
            atomic_store(&r->failed, true);
    return NULL;
}

static size_t processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
}

/* This thread reads, too: where no other can be started, it reads all. */
static void read_all_sides(struct reading *r)
{
    pthread_t threads[MOST_THREADS];
    const size_t wanted = r->n < processors() ? r->n : processors();
    size_t started = 0;

    while (started + 1 < wanted && started < MOST_THREADS && !pthread_create(&threads[started], NULL, read_sides, r))
        started++;
    read_sides(r);
    while (started)
        pthread_join(threads[--started], NULL);
}

int td_sides_open(const struct td_side_place *places, size_t n, struct td_side *out, struct td_error *err)
{
    struct td_error why[TD_SIDES_MAX] = {{0}};
    struct reading r = {.side = out, .why = why};
    size_t i = 0;

    if (n > TD_SIDES_MAX)
        return td_fail(err, TD_ELIMIT, "%zu fixtures to compare, and %d at most can be", n, TD_SIDES_MAX);
    /* a pack is unpacked here, one after the other */
    while (r.n < n && !td_side_open(places[r.n].dir, places[r.n].role, places[r.n].round, &out[r.n], &why[r.n]))
        r.n++;
    read_all_sides(&r);
    while (i < n && !why[i].code)
        i++;
    return i < n ? td_fail(err, why[i].code, "%s", why[i].msg) : TD_OK;
}
