/* gpu_output_check.c - look for outputs that are not finite, or all zeros, and trigger a dump.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An output of zeros may be right (a layer that was pruned, an input of zeros), and the columns
 * that are checked say nothing of the others. So where a ring that was dumped because of zeros
 * holds nothing bad, the layer that raised the alarm is not checked for zeros again in this arm. */
#include <string.h>

#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_output_check.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/core/tap_values.h"

static struct {
    bool may_be_zero[TAP_GPU_WEIGHT_NUMBERS]; /* by number of the weight set */
    uint32_t suspect;                 /* number of the weight set that raised the alarm */
    bool bad;                         /* an op of the dump that is coming has a bad output */
} check;

void tap_gpu_output_check_clear(void)
{
    memset(&check, 0, sizeof check);
}

static void trigger_if_bad(const struct tap_value_counts *l, uint32_t set)
{
    if (l->not_finite)
        tap_flight_trigger(TAP_DUMP_NOT_FINITE);
    else if (l->n && !l->not_zero && set < TAP_GPU_WEIGHT_NUMBERS && !check.may_be_zero[set] &&
             tap_flight_trigger(TAP_DUMP_ZERO))
        check.suspect = set;
}

void tap_gpu_output_check_columns(const struct tap_gpu_entry *e)
{
    struct tap_value_counts l = {0};

    tap_values_count(&l, e->work.op[0].dtype, tap_gpu_stage_bytes_at(e->at), e->len);
    trigger_if_bad(&l, e->set.number);
}

/* Are all inputs zeros? Then an output of zeros is right. */
static bool is_zero(const struct tap_operand *o, int n)
{
    struct tap_value_counts l = {0};
    int i;

    for (i = 0; i < n; i++)
        if (o[i].data)
            tap_values_count(&l, o[i].dtype, o[i].data, o[i].bytes);
    return l.n && !l.not_zero;
}

void tap_gpu_output_check_call(const struct tap_call *call)
{
    struct tap_value_counts l = {0};

    if (!tap_flight_is_on() || !call->out.data)
        return;
    tap_values_count(&l, call->out.dtype, call->out.data, call->out.bytes);
    if (l.n && !l.not_zero && is_zero(call->in, call->n_in))
        return;
    if (call->dump_reason)
        check.bad |= l.not_finite || (l.n && !l.not_zero);
    else
        /* 0: no set to remember, because all of the output was checked. */
        trigger_if_bad(&l, 0);
}

void tap_gpu_output_check_dump(const struct tap_gpu_entry *e)
{
    if (e->kind == TAP_GPU_DUMP_BEGIN) {
        check.bad = false;
        return;
    }
    if (e->flight == TAP_DUMP_ZERO && !check.bad) {
        if (check.suspect)
            check.may_be_zero[check.suspect] = true;
        tap_flight_false_alarm();
    }
    tap_flight_dumped();
}
