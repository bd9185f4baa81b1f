/* ops_causes.c - why ops that were asked for are not all in the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/ops_causes.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/number_words.h"
#include "recorder/dropped_ops.h"

__attribute__((format(printf, 2, 3)))
static void add(struct td_ops_causes *to, const char *fmt, ...)
{
    va_list ap;

    if (to->n == TD_OPS_CAUSES)
        return;
    va_start(ap, fmt);
    vsnprintf(to->text[to->n++], sizeof to->text[0], fmt, ap);
    va_end(ap);
}

/* Ops were asked for by name, and there is none. */
static void add_no_op(const struct td_record_options *o, const struct td_tap_client_state *ops, struct td_ops_causes *to)
{
    char why[180];

    td_dropped_ops_reason(ops, why, sizeof why);
    add(to, "no op was recorded, though %s%s asked for them%s%s", o->mode.all_kinds ? "--all-ops" : "--gemms ",
        o->mode.all_kinds ? "" : o->gemms, *why ? ": " : "", why);
}

static void add_without_room(const struct td_tap_client_state *ops, struct td_ops_causes *to)
{
    char share[32];

    td_dropped_ops_share(ops, ops->ops_ring, share, sizeof share);
    add(to, "%lld op%s (%s) found no room on the way from the server, though all were asked for, "
            "so give more room (--ring-mib) or ask for less (--layers, --gemms 25%%)",
        (long long)ops->ops_ring, td_plural(ops->ops_ring), share);
}

void td_ops_causes_find(const struct td_record_options *o, const struct td_tap_client_state *ops, bool armed, bool ended,
                        const char *failure, struct td_ops_causes *out)
{
    const bool all = o->mode.steps == TD_TAP_CLIENT_ALL;

    out->n = 0;
    if (ops->rings_broken)
        add(out, "the way from the tap broke: the ops that came after are not here");
    if (ops->links_lost && !ended)
        add(out, "processes of the server that were not recorded to the end: %d (they ended, their taps "
                 "fell asleep, or they were too many)",
            ops->links_lost);
    if (ops->ops_lost)
        add(out, "%lld ops that the tap says it sent did not come", (long long)ops->ops_lost);
    if (*failure)
        add(out, "not all that the tap sent was recorded: %.110s", failure);
    if (o->gemms_required && armed && !ops->ops_kept)
        add_no_op(o, ops, out);
    if (all && ops->ops_ring)
        add_without_room(ops, out);
    if (all && ops->ops_crowded)
        add(out, "%lld ops are of more weights than are kept, though all were asked for", (long long)ops->ops_crowded);
}
