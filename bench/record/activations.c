/* activations.c - micro benchmark of keeping activations: CPU time and size of hashing, compressing and writing them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * usage: activations FIXTURE FOLDER
 * Inputs of the recorded calls, as float16 (float32 is rounded to that), go into a new blobs.pack in FOLDER as `record` writes
 * it, on one thread; what several layers read is kept once. Printed, by size of a tensor: bytes, the share that is left, the share
 * that the best code for single bytes of each plane would leave, MB of input a second of CPU time, CPU seconds a GiB. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/f16.h"
#include "format/fixture.h"
#include "format/pack.h"
#include "kernels/ops/op.h"

#define LEVEL 1 /* of blobs, as format/writer.c has it */

static const char *const classes[] = {"under 4 KiB", "4 to 64 KiB", "over 64 KiB", "all"};
struct sums { double raw, stored, hash_s, write_s; long n; long bytes[2][256]; };

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bits of information in a byte of a plane, if bytes are independent. */
static double entropy(const long *count)
{
    double total = 0, bits = 0;

    for (int i = 0; i < 256; i++)
        total += (double)count[i];
    for (int i = 0; i < 256; i++)
        bits -= count[i] ? (double)count[i] / total * log2((double)count[i] / total) : 0;
    return bits;
}

/* In place, for what follows is smaller. Returns the bytes. */
static size_t to_halves(float *x, size_t n_bytes)
{
    const size_t n = n_bytes / 4;
    uint16_t *out = (uint16_t *)x;

    for (size_t i = 0; i < n; i++) {
        float v;

        memcpy(&v, (char *)x + 4 * i, 4);
        out[i] = td_f16_round(v);
    }
    return n * 2;
}

struct pack { struct td_sink sink; struct td_pack_index index; ZSTD_CCtx *z; struct td_buf scratch; };

static void put(struct pack *p, const void *data, size_t n, struct sums *s)
{
    struct td_error err = {0};
    const uint64_t before = p->sink.size;
    const double began = cpu_s();
    const struct td_hash hash = td_hash_bytes(data, n);
    const double hashed = cpu_s();

    if (td_pack_index_find(&p->index, hash)) /* what several layers read is kept once */
        return;
    if (td_pack_write(&p->sink, &p->index, p->z, LEVEL, hash, data, n, 2, &p->scratch, &err)) {
        fprintf(stderr, "activations: %s\n", err.msg);
        exit(4);
    }
    const double done = cpu_s();
    struct sums *both[] = {&s[n < 4096 ? 0 : n <= 65536 ? 1 : 2], &s[3]};
    for (int i = 0; i < 2; i++) {
        both[i]->n++;
        both[i]->raw += (double)n;
        both[i]->stored += (double)(p->sink.size - before);
        both[i]->hash_s += hashed - began;
        both[i]->write_s += done - hashed;
        for (size_t at = 0; at < n; at++)
            both[i]->bytes[at & 1][((const uint8_t *)data)[at]]++;
    }
}

int main(int argc, char **argv)
{
    struct td_fixture *fx = NULL;
    struct td_error err = {0};
    struct pack p = {.z = ZSTD_createCCtx(), .scratch = TD_BUF_INIT(SIZE_MAX / 2)};
    static struct sums sums[4];
    struct td_op *ops = NULL;
    size_t n = 0, bad = 0;

    if (argc != 3 || td_fixture_open(argv[1], &fx, &err) || td_fixture_ops(fx, &ops, &n, &bad, &err) ||
        td_sink_open(&p.sink, argv[2], "blobs.pack", &err)) {
        fprintf(stderr, "activations: %s\n", err.code ? err.msg : "usage: activations FIXTURE FOLDER");
        return 2;
    }
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < ops[i].n_in; t++) {
            const struct td_tensor_rec *r = &ops[i].in[t];
            void *data = NULL;
            size_t size = 0;

            if (!r->stored || !td_op_input_is_of_the_call(r->role) || (strcmp(r->dtype, "F32") && strcmp(r->dtype, "F16")) ||
                td_fixture_blob(fx, r->blob, td_tensor_rec_max_bytes(r), &data, &size, &err))
                continue;
            if (!strcmp(r->dtype, "F32"))
                size = to_halves(data, size);
            put(&p, data, size, sums);
            free(data);
        }
    printf("| a tensor's size | tensors | MB | left | by single bytes | MB/s a core | CPU s a GiB | of which hashing |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < 4; i++) {
        const struct sums *s = &sums[i];
        const double cpu = s->hash_s + s->write_s;

        if (s->n)
            printf("| %s | %ld | %.1f | %.1f %% | %.1f %% | %.0f | %.2f | %.2f |\n", classes[i], s->n, s->raw / 1e6, 100 * s->stored / s->raw, 100 * (entropy(s->bytes[0]) + entropy(s->bytes[1])) / 16,
                   s->raw / 1e6 / cpu, cpu / s->raw * 1073741824.0, s->hash_s / s->raw * 1073741824.0);
    }
    td_ops_free(ops, n);
    td_fixture_close(fx);
    td_sink_close(&p.sink);
    td_pack_index_release(&p.index);
    td_buf_release(&p.scratch);
    ZSTD_freeCCtx(p.z);
    return 0;
}
