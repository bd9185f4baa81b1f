/* lane.c - collect the notes of a lane; the gravest verdict wins.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/lane.h"
#include "common/out_of_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *td_lane_name(enum td_lane_id id)
{
    static const char *const NAMES[] = {
#define LANE(ID, name) #name,
#include "differ/lanes.def"
#undef LANE
    };

    return NAMES[id];
}

static void add_note(struct td_lane *lane, enum td_verdict v, const char *fmt, va_list ap)
{
    char text[1024];

    if (v > lane->verdict)
        lane->verdict = v;
    if (lane->n_notes >= TD_LANE_MAX_NOTES) {
        lane->n_notes = TD_LANE_MAX_NOTES;
        free(lane->notes[TD_LANE_MAX_NOTES].text);
        v = TD_NOT_JUDGED;
        snprintf(text, sizeof text, "%d more such notes are left out; the verdict counts them",
                 ++lane->n_more);
    } else {
        vsnprintf(text, sizeof text, fmt, ap);
    }
    lane->notes[lane->n_notes].verdict = v;
    lane->notes[lane->n_notes].text = td_strdup(text);
    if (lane->notes[lane->n_notes].text)
        lane->n_notes++;
}

void td_lane_note(struct td_lane *lane, enum td_verdict v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_note(lane, v, fmt, ap);
    va_end(ap);
}

void td_lane_no_evidence(struct td_lane *lane, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_note(lane, lane->by_name ? TD_INCONCLUSIVE : TD_NOT_JUDGED, fmt, ap);
    va_end(ap);
}

void td_lanes_init(struct td_lane lanes[TD_N_LANES])
{
    int i;

    memset(lanes, 0, TD_N_LANES * sizeof lanes[0]);
    for (i = 0; i < TD_N_LANES; i++)
        lanes[i].id = (enum td_lane_id)i;
}

void td_lanes_release(struct td_lane lanes[TD_N_LANES])
{
    int i, j;

    for (i = 0; i < TD_N_LANES; i++) {
        for (j = 0; j < lanes[i].n_notes; j++)
            free(lanes[i].notes[j].text);
        lanes[i].n_notes = 0;
    }
}

enum td_verdict td_lanes_verdict(const struct td_lane lanes[TD_N_LANES])
{
    enum td_verdict v = TD_NOT_JUDGED;
    int i;

    for (i = 0; i < TD_N_LANES; i++)
        if (lanes[i].asked && lanes[i].verdict > v)
            v = lanes[i].verdict;
    return v;
}
