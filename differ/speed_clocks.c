/* speed_clocks.c - were two builds timed at the same GPU clocks? If not, their times cannot be
 * compared.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/speed_clocks.h"

#include <math.h>
#include <stdio.h>

/* By which share the candidate's clock is lower: 0.04 is 4 %. NaN: not known. */
static double clock_deficit(const struct td_judged_op_device *d)
{
    return d->sm_mhz[0] > 0 && d->sm_mhz[1] > 0 ? 1 - d->sm_mhz[1] / d->sm_mhz[0] : NAN;
}

static bool are_uneven(const struct td_judged_op_device *d)
{
    return fabs(clock_deficit(d)) > TD_CLOCKS_DIFFER ||
           fabs(d->throttled[1] - d->throttled[0]) > TD_THROTTLED_DIFFERS;
}

static void describe_uneven_clocks(const struct td_judged_op_device *d, char *out, size_t size)
{
    const double by = clock_deficit(d);
    const int side = fabs(by) > TD_CLOCKS_DIFFER ? by > 0 : d->throttled[1] > d->throttled[0];
    int used = 0;

    if (fabs(by) > TD_CLOCKS_DIFFER)
        used = snprintf(out, size, "the %s ran at a lower clock (%.0f against %.0f MHz)",
                        side ? "candidate" : "baseline", d->sm_mhz[side], d->sm_mhz[!side]);
    else
        used = snprintf(out, size, "the %s alone was held down", side ? "candidate" : "baseline");
    if (d->throttled[side] > 0 && used > 0 && (size_t)used < size)
        snprintf(out + used, size - (size_t)used,
                 "; %s in %.0f %% of its samples, in %.0f %% of the other's",
                 d->throttled_by[side] ? d->throttled_by[side] : "throttled",
                 d->throttled[side] * 100, d->throttled[!side] * 100);
}

bool td_speed_clocks_even(struct td_speed *s, const struct td_judged_op *op)
{
    const struct td_judged_op_device *d = &op->device;

    s->timed++;
    s->throttled += d->throttled[0] > 0 && d->throttled[1] > 0;
    if (d->unknown && !s->clocks_unknown)
        s->clocks_unknown = d->unknown;
    if (!are_uneven(d))
        return true;
    if (!s->uneven++)
        describe_uneven_clocks(d, s->uneven_how, sizeof s->uneven_how);
    return false;
}

void td_speed_clocks_judge(const struct td_speed *s, struct td_lane *lane)
{
    if (s->uneven)
        td_lane_note(lane, TD_INCONCLUSIVE,
                     "%zu of %zu timed ops: %s: their speed is not judged; replay again, or set "
                     "the clocks (nvidia-smi -lgc)",
                     s->uneven, s->timed, s->uneven_how);
    if (s->throttled)
        td_lane_note(lane, TD_NOT_JUDGED,
                     "%zu of %zu timed ops: the GPU held its clocks down in both builds",
                     s->throttled, s->timed);
    if (s->clocks_unknown)
        td_lane_note(lane, TD_NOT_JUDGED, "the GPU's clocks while it was timed are not known: %s",
                     s->clocks_unknown);
}
