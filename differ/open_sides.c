/* open_sides.c - open the fixtures of a comparison, and read them side by side.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/open_sides.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "differ/tops.h"

#define MOST_THREADS 8 /* each has a frame in memory */

/* Threads take the next place in turn. After a failure no further one is begun; those before it are under way. */
struct reading {
    struct td_side *side; size_t n;
    int (*run)(struct td_side *s, struct td_error *err);
    struct td_error *why;      /* [n] */
    atomic_size_t next;
    atomic_bool failed;
};

static void *read_sides(void *arg)
{
    struct reading *r = arg;
    size_t i;

    while (!atomic_load(&r->failed) && (i = atomic_fetch_add(&r->next, 1)) < r->n)
        if (r->run(&r->side[i], &r->why[i]))
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

/* The first failure in the order of the sides. */
static int first_of(const struct td_error *why, size_t n, struct td_error *err)
{
    size_t i = 0;

    while (i < n && !why[i].code)
        i++;
    return i < n ? td_fail(err, why[i].code, "%s", why[i].msg) : TD_OK;
}

int td_sides_each(struct td_side *sides, size_t n, int (*run)(struct td_side *s, struct td_error *err), struct td_error *err)
{
    struct td_error why[TD_SIDES_MAX] = {{0}};
    struct reading r = {.side = sides, .n = n, .run = run, .why = why};

    if (n > TD_SIDES_MAX)
        return td_fail(err, TD_ELIMIT, "%zu fixtures to compare, and %d at most can be", n, TD_SIDES_MAX);
    read_all_sides(&r);
    return first_of(why, n, err);
}

static int read_side(struct td_side *s, struct td_error *err)
{
    int rc = td_side_check(s, err);

    return rc ? rc : td_tops_read(s, err);
}

int td_sides_open(const struct td_side_place *places, size_t n, struct td_side *out, struct td_error *err)
{
    struct td_error why = {0};
    size_t opened = 0;
    int rc;

    /* a pack is unpacked here, one after the other */
    while (opened < n && !td_side_open(places[opened].dir, places[opened].role, places[opened].round, &out[opened], &why))
        opened++;
    rc = td_sides_each(out, opened, read_side, err);
    return rc || !why.code ? rc : td_fail(err, why.code, "%s", why.msg);
}
