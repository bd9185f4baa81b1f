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

static void append(struct td_lane *lane, enum td_verdict v, const char *text)
{
    lane->notes[lane->n_notes].verdict = v;
    lane->notes[lane->n_notes].text = td_strdup(text);
    if (lane->notes[lane->n_notes].text)
        lane->n_notes++;
}

/* Remove the last of the least grave notes, if v is graver. */
static bool make_place(struct td_lane *lane, enum td_verdict v)
{
    int least = 0, i;

    for (i = 1; i < lane->n_notes; i++)
        least = lane->notes[i].verdict <= lane->notes[least].verdict ? i : least;
    if (lane->notes[least].verdict >= v)
        return false;
    free(lane->notes[least].text);
    memmove(&lane->notes[least], &lane->notes[least + 1], (size_t)(--lane->n_notes - least) * sizeof *lane->notes);
    return true;
}

static void add_note(struct td_lane *lane, enum td_verdict v, const char *fmt, va_list ap)
{
    char text[1024], more[80];
    bool left_out;

    if (v > lane->verdict)
        lane->verdict = v;
    if (lane->n_more)
        free(lane->notes[--lane->n_notes].text); /* the one that counts */
    left_out = lane->n_notes == TD_LANE_MAX_NOTES;
    vsnprintf(text, sizeof text, fmt, ap);
    if (!left_out || make_place(lane, v))
        append(lane, v, text);
    lane->n_more += left_out;
    snprintf(more, sizeof more, "%d more such note%s left out; the verdict counts %s", lane->n_more, lane->n_more == 1 ? " is" : "s are",
             lane->n_more == 1 ? "it" : "them");
    if (lane->n_more)
        append(lane, TD_NOT_JUDGED, more);
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
