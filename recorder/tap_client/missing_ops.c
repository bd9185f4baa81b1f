/* missing_ops.c - ops that are missing though nobody counted them as dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/missing_ops.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"

#define MOST_SHOWN ((int64_t)1 << 40) /* the tap's process may write any number */

void client_note_not_recorded(struct td_tap_client *c, pid_t pid, const char *why)
{
    td_log(TD_LOG_WARN, "tap", "process %d of the server is not recorded: %s", (int)pid, why);
    td_writer_count(c->opt.writer, "links.lost", 1, 0);
    c->state.links_lost++;
}

static int64_t count_read(const struct client_tap *tap)
{
    int64_t n = 0;
    uint32_t i;

    for (i = 0; i < tap->rings; i++)
        n += tap->ring[i].ops_read;
    return n;
}

/* Ops that the tap counts as sent in rings that were read to their end. */
static int64_t count_lost(const struct client_tap *tap)
{
    int64_t lost = 0;
    uint32_t i;

    for (i = 0; tap->shared && i < tap->rings; i++) {
        const struct client_ring *r = &tap->ring[i];
        uint64_t sent =
            atomic_load_explicit(&r->shared->counts[TAP_OPS_SENT].n, memory_order_relaxed);

        if (!r->corrupt && sent > (uint64_t)r->ops_read)
            lost += sent - (uint64_t)r->ops_read < (uint64_t)MOST_SHOWN
                        ? (int64_t)(sent - (uint64_t)r->ops_read)
                        : MOST_SHOWN;
    }
    return lost < MOST_SHOWN ? lost : MOST_SHOWN;
}

/* Did another process that sent ops say the same? Then it does not explain that there are none. */
static bool is_common(const struct td_tap_client *c, const char *remark)
{
    int i;

    for (i = 0; i < c->n; i++)
        if (count_read(&c->tap[i]) && !strcmp(c->tap[i].remark, remark))
            return true;
    return false;
}

void client_note_missing_ops(struct td_tap_client *c)
{
    char why[sizeof c->tap[0].remark + 40];
    int64_t lost;
    int i;

    for (i = 0; i < c->n; i++) {
        struct client_tap *tap = &c->tap[i];

        lost = count_lost(tap);
        if (lost) {
            td_log(TD_LOG_WARN, "tap",
                   "process %d: %lld ops that the tap says it sent did not come", (int)tap->pid,
                   (long long)lost);
            td_writer_count(c->opt.writer, "ops.seen", lost, 0);
            td_writer_count(c->opt.writer, "ops.dropped.lost", lost, 0);
            c->state.ops_dropped += lost;
            c->state.ops_lost += lost;
        }
        if (c->opt.every_step && *tap->remark && c->state.ops_kept && !count_read(tap) &&
            !is_common(c, tap->remark)) {
            snprintf(why, sizeof why, "it sent no op; %s", tap->remark);
            client_note_not_recorded(c, tap->pid, why);
        }
    }
}
