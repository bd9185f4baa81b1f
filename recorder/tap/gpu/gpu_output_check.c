/* gpu_output_check.c - do outputs look bad? On the sender's thread, in memory of the host.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An output of zeros may be right (a layer that was pruned, an input of zeros), and columns say
 * nothing of the others: where a whole ring that was kept for zeros holds nothing bad, the layer
 * that raised the alarm is not asked for zeros again. */
#include <string.h>

#include "recorder/tap/gpu/flight_trigger.h"
#include "recorder/tap/gpu/gpu_output_check.h"
#include "recorder/tap/gpu/gpu_stage.h"
#include "recorder/tap/core/tap_look.h"

static struct {
    bool may_be_zero[TAP_GPU_WEIGHT_NUMBERS]; /* by number of the set */
    uint32_t suspect;                 /* the set that raised the alarm */
    bool bad;                         /* something in the ring that is coming is */
} look;

void tap_gpu_output_check_clear(void)
{
    memset(&look, 0, sizeof look);
}

static void judge(const struct tap_look *l, uint32_t set)
{
    if (l->not_finite)
        tap_flight_trigger(TAP_FLIGHT_NOT_FINITE);
    else if (l->n && !l->not_zero && set < TAP_GPU_WEIGHT_NUMBERS && !look.may_be_zero[set] &&
             tap_flight_trigger(TAP_FLIGHT_ZERO))
        look.suspect = set;
}

void tap_gpu_output_check_columns(const struct tap_gpu_entry *e)
{
    struct tap_look l = {0};

    tap_look_at(&l, e->work.op[0].dtype, tap_gpu_stage_bytes_at(e->at), e->len);
    judge(&l, e->set.number);
}

/* Zeros of zeros are right. */
static bool is_zero(const struct tap_operand *o, int n)
{
    struct tap_look l = {0};
    int i;

    for (i = 0; i < n; i++)
        if (o[i].data)
            tap_look_at(&l, o[i].dtype, o[i].data, o[i].bytes);
    return l.n && !l.not_zero;
}

void tap_gpu_output_check_call(const struct tap_call *call)
{
    struct tap_look l = {0};

    if (!tap_flight_is_on() || !call->out.data)
        return;
    tap_look_at(&l, call->out.dtype, call->out.data, call->out.bytes);
    if (l.n && !l.not_zero && is_zero(call->in, call->n_in))
        return;
    if (call->flight)
        look.bad |= l.not_finite || (l.n && !l.not_zero);
    else
        judge(&l, 0);                 /* 0: no set; all of it was looked at */
}

void tap_gpu_output_check_dump(const struct tap_gpu_entry *e)
{
    if (e->kind == TAP_GPU_DUMP_BEGIN) {
        look.bad = false;
        return;
    }
    if (e->flight == TAP_FLIGHT_ZERO && !look.bad) {
        if (look.suspect)
            look.may_be_zero[look.suspect] = true;
        tap_flight_false_alarm();
    }
    tap_flight_dumped();
}
