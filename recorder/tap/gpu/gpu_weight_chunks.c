/* gpu_weight_chunks.c - weights on their way to the sender: chunk after chunk through the stage's
 * ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_queue.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/gpu/gpu_weight_chunks.h"

#define CHUNK_BYTES (4u << 20)        /* of one chunk; less where the ring is small */

static uint64_t chunk_bytes(void)
{
    uint64_t ring = tap_gpu_stage_bytes();

    return ring / 4 < CHUNK_BYTES ? ring / 4 : CHUNK_BYTES;
}

bool tap_gpu_weight_chunk_fits(void)
{
    uint64_t chunk = chunk_bytes();

    /* Twice, because the chunk may not fit before the end of the ring. */
    return tap_gpu_queue_place(1) && tap_gpu_stage_room() >= 2 * chunk + tap_gpu_stage_bytes() / 8;
}

/* Stage the next chunk of the set, within one tensor. False: no room, or the driver refused. */
static bool put_chunk(struct tap_gpu_weight_set *s, void *stream)
{
    /* A place must be left for the launch's own entry. */
    struct tap_gpu_entry *e = tap_gpu_queue_place(1);
    uint64_t in = s->staged, chunk = chunk_bytes(), len, at;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && in >= s->bytes[t]; t++)
        in -= s->bytes[t];
    if (!e || t == TAP_MAX_WEIGHTS)
        return false;
    e = tap_gpu_queue_place(0);
    len = s->bytes[t] - in < chunk ? s->bytes[t] - in : chunk;
    if (tap_gpu_stage_room() < len + tap_gpu_stage_bytes() / 8)
        return false;                 /* inputs and outputs come before weights */
    at = tap_gpu_stage_reserve(len);
    if (at == TAP_GPU_FULL || !tap_gpu_stage_copy(at, s->address[t] + in, 1, len, len, stream) ||
        !tap_gpu_stage_mark(stream))
        return false;
    memset(e, 0, sizeof *e);
    e->kind = TAP_GPU_WEIGHT_CHUNK;
    e->set = *s;
    e->offset = s->staged;
    e->at = at;
    e->len = len;
    tap_gpu_queue_put(e, tap_gpu_stage_batch());
    s->staged += len;
    return tap_gpu_stage_waiting() < TAP_GPU_BATCH_BYTES || tap_gpu_stage_hand_over();
}

bool tap_gpu_weight_chunks_put(struct tap_gpu_weight_set *s, void *stream)
{
    uint64_t before = s->staged;

    while (s->staged < s->total && put_chunk(s, stream))
        ;
    tap_budget_charge_weights(s->staged - before);
    return s->staged == s->total;
}
