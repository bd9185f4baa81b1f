/* gpu_weight_chunks.c - weights on their way to the recorder: piece after piece through the stage's ring.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "recorder/tap/gpu/gpu_parts.h"

#define PIECE_BYTES (4u << 20)        /* in one copy; of a small ring less */

static uint64_t piece_bytes(void)
{
    uint64_t ring = tap_cuda_stage_bytes();

    return ring / 4 < PIECE_BYTES ? ring / 4 : PIECE_BYTES;
}

bool tap_cuda_piece_fits(void)
{
    uint64_t piece = piece_bytes();

    return tap_cuda_queue_place(1) && tap_cuda_stage_room() >= 2 * piece + tap_cuda_stage_bytes() / 8; /* it may not fit before the ring's end */
}

/* One more piece of the set: within one tensor. False: no room, or the driver refused. */
static bool send_piece(struct tap_cuda_set *s, void *stream)
{
    struct tap_cuda_entry *e = tap_cuda_queue_place(1); /* the launch's own comes after it */
    uint64_t in = s->taken, piece = piece_bytes(), len, at;
    int t;

    for (t = 0; t < TAP_MAX_WEIGHTS && in >= s->bytes[t]; t++)
        in -= s->bytes[t];
    if (!e || t == TAP_MAX_WEIGHTS)
        return false;
    e = tap_cuda_queue_place(0);
    len = s->bytes[t] - in < piece ? s->bytes[t] - in : piece;
    if (tap_cuda_stage_room() < len + tap_cuda_stage_bytes() / 8)
        return false;                 /* activations come before weights */
    at = tap_cuda_stage_take(len);
    if (at == TAP_CUDA_FULL || !tap_cuda_stage_copy(at, s->address[t] + in, 1, len, len, stream) || !tap_cuda_stage_mark(stream))
        return false;
    memset(e, 0, sizeof *e);
    e->what = TAP_CUDA_PIECE;
    e->set = *s;
    e->offset = s->taken;
    e->at = at;
    e->len = len;
    tap_cuda_gate_put(e, tap_cuda_stage_batch());
    s->taken += len;
    return tap_cuda_stage_waiting() < TAP_CUDA_BATCH || tap_cuda_stage_hand_over();
}

bool tap_cuda_pieces_send(struct tap_cuda_set *s, void *stream)
{
    uint64_t before = s->taken;

    while (s->taken < s->total && send_piece(s, stream))
        ;
    tap_pay_weights(s->taken - before);
    return s->taken == s->total;
}
