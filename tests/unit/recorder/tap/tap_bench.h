/* tap_bench.h - both ends of the tap in one process, for tests: armed by hand, one ring, read back from a fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_RECORDER_TAP_TAP_BENCH_H
#define TD_TESTS_UNIT_RECORDER_TAP_TAP_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fs.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/read_rings.h"
#include "recorder/tap_client/read_steps.h"
#include "recorder/tap_client/read_weights.h"
#include "recorder/tap_client/tap_client.h"
#include "recorder/tap/core/tap.h"
#include "recorder/tap/core/tap_ring_slot.h"
#include "recorder/tap/fronts.h"

enum { RING = 1 << 20 };

struct bench { char root[64], dir[80]; struct td_tap_client l; struct client_tap *lk; struct td_fixture *fx; struct td_op *ops; struct td_step *steps; size_t n_ops, n_steps; };

static uint32_t ours = 1, generation;

static inline uint8_t *map_ring(void)
{
    int fd = memfd_create("ring", MFD_CLOEXEC);
    uint8_t *p = mmap(NULL, 2 * RING, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_int_equal(ftruncate(fd, RING), 0);
    assert_ptr_equal(mmap(p, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), p);
    assert_ptr_equal(mmap(p + RING, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), p + RING);
    close(fd);
    return p;
}

/* Armed as by the recorder's ARM, with one ring. */
static inline void bench_open(struct bench *b, uint32_t mode)
{
    struct tap_ring_slot *s = &tap_ring_slots[0];
    struct td_error err = {0};

    memset(b, 0, sizeof *b);
    strcpy(b->root, "/tmp/td-call-XXXXXX");
    assert_non_null(mkdtemp(b->root));
    snprintf(b->dir, sizeof b->dir, "%s/fx", b->root);
    assert_int_equal(td_writer_create(b->dir, &(struct td_writer_options){.tool = "test"}, &b->l.opt.writer, &err), 0);
    memset(s, 0, sizeof *s);
    s->data = map_ring();
    s->ring = aligned_alloc(64, TAP_PAGE);
    memset(s->ring, 0, TAP_PAGE);
    s->weights = calloc(TAP_KNOWN_WEIGHTS, sizeof *s->weights);
    tap_plan.shared = calloc(1, TAP_PAGE);
    tap_plan.rings = 1;
    tap_plan.ring_bytes = RING;
    tap_plan.mode = mode;
    tap_plan.percent_ppm = 1000;
    tap_plan.ours = &ours;
    b->lk = &b->l.tap[0];
    b->l.n = 1;
    b->lk->rings = 1;
    b->lk->ring_bytes = RING;
    b->lk->shared = tap_plan.shared;
    b->lk->ring[0].shared = s->ring;
    b->lk->ring[0].data = s->data;
    tap_thread.uses_steps = false;
    atomic_store(&tap_generation, ++generation);
    tap_ring_slots_init();
}

/* What was recorded so far, read back. */
static inline void bench_read(struct bench *b)
{
    struct td_error err = {0};
    size_t bad;

    atomic_store(&tap_generation, 0);
    while (client_drain(&b->l, b->lk))
        ;
    client_ledger_update(&b->l, b->lk);
    assert_false(b->lk->ring[0].corrupt);
    client_write_held(&b->l);
    assert_int_equal(td_writer_close(b->l.opt.writer, "complete", &err), 0);
    assert_int_equal(td_fixture_open(b->dir, &b->fx, &err), 0);
    assert_int_equal(td_fixture_ops(b->fx, &b->ops, &b->n_ops, &bad, &err), 0);
    assert_int_equal(td_fixture_steps(b->fx, &b->steps, &b->n_steps, &bad, &err), 0);
}

static inline void bench_close(struct bench *b)
{
    struct tap_ring_slot *s = &tap_ring_slots[0];

    td_ops_free(b->ops, b->n_ops);
    td_steps_free(b->steps, b->n_steps);
    td_fixture_close(b->fx);
    client_weights_release(&b->lk->ring[0]);
    client_kernels_release(&b->l.kernels);
    munmap(s->data, 2 * RING);
    free(s->ring);
    free(s->weights);
    free(tap_plan.shared);
    td_fs_remove_tree(b->root, NULL);
}

/* A front starts the tap's thread, which has its environment from the time when it was loaded. Here the test arms by hand: the thread must
 * find no folder for its socket and end, or it might look for a heartbeat. First in main(). */
static inline void bench_without_socket(char **argv)
{
    const char *dir = getenv("TD_TAP_DIR");

    if (dir && !strcmp(dir, "/dev/null"))
        return;
    setenv("TD_TAP_DIR", "/dev/null", 1);
    execv("/proc/self/exe", argv);
    perror(argv[0]);
    exit(1);
}

static inline int64_t ledger(const struct bench *b, const char *name)
{
    return td_fixture_ledger(b->fx, name);
}

/* Every op and step that was seen is either recorded or dropped for a reason. */
static inline void check_balance(const struct bench *b)
{
    static const char *const why[] = {"sampling", "budget", "ring", "threads", "weights", "partial", "failed", "recorder", "unreadable", "graph", "flight", "layers", "activations", "rotation"};
    int64_t ops = ledger(b, "ops.kept"), steps = ledger(b, "steps.kept");
    size_t i;

    for (i = 0; i < sizeof why / sizeof *why; i++) {
        char name[64];

        snprintf(name, sizeof name, "ops.dropped.%s", why[i]);
        ops += ledger(b, name);
        snprintf(name, sizeof name, "steps.dropped.%s", why[i]);
        steps += ledger(b, name);
    }
    assert_int_equal(ledger(b, "ops.seen"), ops);
    assert_int_equal(ledger(b, "steps.seen"), steps);
}

static inline void check_blob(const struct bench *b, const struct td_tensor_rec *t, const void *want, size_t n)
{
    struct td_error err = {0};
    void *data;
    size_t got;

    assert_non_null(t);
    assert_true(t->stored);
    assert_int_equal(td_fixture_blob(b->fx, t->blob, UINT64_MAX, &data, &got, &err), 0);
    assert_int_equal(got, n);
    assert_memory_equal(data, want, n);
    free(data);
}

#endif
