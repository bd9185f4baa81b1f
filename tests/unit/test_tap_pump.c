/* test_tap_pump.c - what a broken or dying server may leave in a ring: read to the last whole record, never past it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fs.h"
#include "recorder/links_parts.h"

enum { RING = 64 << 10, K = 64, N = 32, GROUP = 32 };

struct bench { char root[64]; struct td_links l; struct link *lk; uint8_t *data; uint64_t head; };

static void bench_open(struct bench *b)
{
    struct td_error err = {0};
    char dir[80];

    memset(b, 0, sizeof *b);
    strcpy(b->root, "/tmp/td-pump-XXXXXX");
    assert_non_null(mkdtemp(b->root));
    snprintf(dir, sizeof dir, "%s/fx", b->root);
    assert_int_equal(td_writer_create(dir, &(struct td_writer_options){.tool = "test"}, &b->l.opt.writer, &err), 0);
    strcpy(b->l.nonce, "0123456789abcdef");
    b->lk = &b->l.link[0];
    b->l.n = 1;
    b->lk->rings = 1;
    b->lk->ring_bytes = RING;
    b->lk->shared = calloc(1, TAP_PAGE);
    b->lk->ring[0].shared = aligned_alloc(64, TAP_PAGE);
    memset(b->lk->ring[0].shared, 0, TAP_PAGE);
    b->data = aligned_alloc(64, RING);
    memset(b->data, 0, RING);
    b->lk->ring[0].data = b->data;
}

static void bench_close(struct bench *b)
{
    links_weights_release(&b->lk->ring[0]);
    free(b->lk->shared);
    free(b->lk->ring[0].shared);
    free(b->data);
    td_writer_abandon(b->l.opt.writer);
    td_fs_remove_tree(b->root, NULL);
}

static void rewind_ring(struct bench *b)
{
    links_weights_release(&b->lk->ring[0]);
    b->lk->ring[0].corrupt = false;
    b->head = 0;
    atomic_store(&b->lk->ring[0].shared->head, 0);
    atomic_store(&b->lk->ring[0].shared->tail, 0);
}

static struct tap_rec rec_of(uint16_t type, size_t size)
{
    return (struct tap_rec){.size = (uint32_t)tap_round(size, TAP_REC_ALIGN), .type = type, .tid = 1, .t_ns = 5};
}

static void put(struct bench *b, const void *head, size_t n, size_t size)
{
    memset(b->data + b->head, 0x3c, tap_round(size, TAP_REC_ALIGN));
    memcpy(b->data + b->head, head, n);
    b->head += tap_round(size, TAP_REC_ALIGN);
    atomic_store(&b->lk->ring[0].shared->head, b->head);
}

/* A step of one row, its weights in two pieces, one op. Returns where each of the four records begins. */
static void put_all(struct bench *b, uint64_t at[4])
{
    static const char id[] = "cmpl-td-0123456789abcdef-42";
    struct tap_span span = {.request = 1, .n_rows = 1, .position = 3, .decode = 1, .id_len = sizeof id - 1};
    size_t bytes[] = {K / 8 * N * 4, K / GROUP * N / 8 * 4, K / GROUP * N * 2, 0}, total = bytes[0] + bytes[1] + bytes[2];
    size_t size = sizeof(struct tap_step) + sizeof span + sizeof id - 1;
    struct tap_step step = {.rec = rec_of(TAP_REC_STEP, size), .step = 9, .n_spans = 1, .ids_bytes = sizeof id - 1};
    struct tap_weight w = {.rec = rec_of(TAP_REC_WEIGHT, sizeof w + 512), .id = 1, .len = 512, .bytes = {bytes[0], bytes[1], bytes[2], 0}};
    struct tap_op op = {.rec = rec_of(TAP_REC_OP, sizeof op + 2 * K + 2 * N), .step = 9, .has_step = 1, .m = 1, .n = N, .k = K, .bits = 4,
                        .group_size = GROUP, .zero_offset = 1, .lda = K, .ldc = N, .weight = 1};

    at[0] = b->head;
    put(b, &step, sizeof step, size);
    memcpy(b->data + at[0] + sizeof step, &span, sizeof span);
    memcpy(b->data + at[0] + sizeof step + sizeof span, id, sizeof id - 1);
    at[1] = b->head;
    put(b, &w, sizeof w, sizeof w + 512);
    at[2] = b->head;
    w.offset = 512;
    w.len = (uint32_t)(total - 512);
    w.rec = rec_of(TAP_REC_WEIGHT, sizeof w + w.len);
    put(b, &w, sizeof w, sizeof w + w.len);
    at[3] = b->head;
    put(b, &op, sizeof op, sizeof op + 2 * K + 2 * N);
}

static void test_whole(void **state)
{
    struct bench b;
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);
    assert_int_equal(links_drain(&b.l, b.lk), 4);
    assert_false(b.lk->ring[0].corrupt);
    assert_int_equal(b.l.state.ops_kept, 1);
    assert_int_equal(b.l.state.steps_kept, 1);
    assert_int_equal(atomic_load(&b.lk->ring[0].shared->tail), b.head);
    bench_close(&b);
}

static void expect_corrupt(struct bench *b, int64_t ops)
{
    while (links_drain(&b->l, b->lk))
        ;
    assert_true(b->lk->ring[0].corrupt);
    assert_int_equal(b->l.state.ops_kept, ops);
    rewind_ring(b);
}

static void test_named_faults(void **state)
{
    struct bench b;
    uint64_t at[4];

    (void)state;
    bench_open(&b);
    put_all(&b, at);                  /* a head beyond the ring */
    atomic_store(&b.lk->ring[0].shared->head, (uint64_t)2 * RING);
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* an op that is longer than what came */
    ((struct tap_rec *)(b.data + at[3]))->size += 4096;
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* rows that do not fit the record */
    ((struct tap_op *)(b.data + at[3]))->m = 1 << 30;
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* weights of another layer */
    ((struct tap_op *)(b.data + at[3]))->n = 2 * N;
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* a set that never came */
    ((struct tap_op *)(b.data + at[3]))->weight = 7;
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* a piece out of turn */
    ((struct tap_weight *)(b.data + at[2]))->offset = 0;
    expect_corrupt(&b, 0);
    put_all(&b, at);                  /* ids that are not there */
    ((struct tap_step *)(b.data + at[0]))->n_spans = 60000;
    expect_corrupt(&b, 0);
    bench_close(&b);
}

static void test_any_byte(void **state)
{
    struct bench b;
    uint64_t at[4], x = 88172645463325252u;
    int i, j;

    (void)state;
    bench_open(&b);
    for (i = 0; i < 20000; i++) {
        put_all(&b, at);
        for (j = 0; j < 1 + i % 4; j++) {
            uint64_t where;

            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            where = at[x % 4] + (x >> 8) % 96;
            if (where < b.head)
                b.data[where] = (uint8_t)(x >> 32);
        }
        while (links_drain(&b.l, b.lk))
            ;
        assert_true(atomic_load(&b.lk->ring[0].shared->tail) <= b.head);
        rewind_ring(&b);
        td_error_clear(&b.l.failed);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_named_faults),
        cmocka_unit_test(test_any_byte),
    };

    setenv("TD_LOG", "0", 1);         /* thousands of warnings are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
