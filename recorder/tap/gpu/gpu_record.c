/* gpu_record.c - what is copied of a launch, and to where in the ring. With the lane held.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/gpu/gpu_parts.h"

static bool copy(struct tap_cuda_copies *c, uint64_t at, const struct td_gpu_operand *o, void *stream)
{
    uint64_t rows = tap_cuda_rows_of(o);

    return tap_cuda_copies_add(c, tap_cuda_stage_address(at), o->address, rows, o->bytes / rows, tap_cuda_pitch_of(o), stream);
}

static bool copy_sample(struct tap_cuda_copies *c, struct tap_cuda_entry *e, void *stream)
{
    uint64_t n;
    int t;

    e->sample_at = tap_cuda_stage_take(TAP_CUDA_SAMPLE);
    for (t = 0; t < TAP_MAX_WEIGHTS && e->sample_at != TAP_CUDA_FULL; t++) {
        const uint64_t at = tap_cuda_set_sample(&e->set, t, &n);

        if (n && !tap_cuda_copies_add(c, tap_cuda_stage_address(e->sample_at + (uint64_t)t * TAP_CUDA_SAMPLE_EACH), e->set.address[t] + at, 1, n, n, stream))
            return false;
    }
    return e->sample_at != TAP_CUDA_FULL;
}

/* Of a graph's launch all is there by now, in a row: one copy. */
static bool copy_slot(struct tap_cuda_copies *c, struct tap_cuda_entry *e, void *stream)
{
    uint64_t bytes = tap_cuda_slot_of(&e->work, e->work.n_op), at = tap_cuda_stage_take(bytes);
    int i;

    for (i = 0; i < e->work.n_op; i++)
        e->op_at[i] = at + tap_cuda_slot_of(&e->work, i);
    return at != TAP_CUDA_FULL && tap_cuda_copies_add(c, tap_cuda_stage_address(at), e->launch.slot, 1, bytes, bytes, stream);
}

/* Places for all that is copied, and copies of what is there before the launch. */
static bool copy_operands(struct tap_cuda_copies *c, struct tap_cuda_entry *e, void *stream)
{
    int i;

    for (i = 0; i < e->work.n_op; i++) {
        const struct td_gpu_operand *o = &e->work.op[i];

        if (!tap_cuda_is_copied(o))
            continue;
        e->op_at[i] = tap_cuda_stage_take(o->bytes);
        if (e->op_at[i] == TAP_CUDA_FULL || (o->use == TD_GPU_IN && !copy(c, e->op_at[i], o, stream)))
            return false;
    }
    return true;
}

bool tap_cuda_copy_inputs(struct tap_cuda_entry *e, void *stream)
{
    struct tap_cuda_copies c = {.n = 0};

    if (!e->joins && !copy_sample(&c, e, stream))
        return false;
    return (e->launch.slot ? copy_slot(&c, e, stream) : copy_operands(&c, e, stream)) && tap_cuda_copies_go(&c, stream);
}

bool tap_cuda_copy_output(const struct tap_cuda_entry *e, void *stream)
{
    const struct td_gpu_operand *o = tap_cuda_output(&e->work);
    struct tap_cuda_copies c = {.n = 0};

    return e->launch.slot || (copy(&c, e->op_at[o - e->work.op], o, stream) && tap_cuda_copies_go(&c, stream));
}
