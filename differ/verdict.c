/* verdict.c - lanes collect sentences; the gravest verdict wins.
 * SPDX-License-Identifier: Apache-2.0 */
#include "differ/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

const char *td_verdict_name(enum td_verdict v)
{
    static const char *const NAMES[] = {"not judged", "pass", "inconclusive", "regressed", "broken"};

    return NAMES[v];
}

int td_verdict_exit(enum td_verdict v)
{
    switch (v) {
    case TD_PASS:
        return TD_EXIT_OK;
    case TD_REGRESSED:
        return TD_EXIT_REGRESSED;
    case TD_BROKEN:
        return TD_EXIT_BROKEN;
    case TD_INCONCLUSIVE:
    case TD_NOT_JUDGED:
        break;
    }
    return TD_EXIT_INCONCLUSIVE;
}

const char *td_lane_name(enum td_lane_id id)
{
    static const char *const NAMES[] = {"tokens", "collapse", "scores", "ops", "speed"};

    return NAMES[id];
}

static void say(struct td_lane *lane, enum td_verdict v, const char *fmt, va_list ap)
{
    char text[1024];

    if (v > lane->verdict)
        lane->verdict = v;
    if (lane->n_notes >= TD_LANE_MAX_NOTES) {
        lane->n_notes = TD_LANE_MAX_NOTES;
        free(lane->notes[TD_LANE_MAX_NOTES].text);
        v = TD_NOT_JUDGED;
        snprintf(text, sizeof text, "%d more such notes are left out; the verdict counts them", ++lane->n_more);
    } else {
        vsnprintf(text, sizeof text, fmt, ap);
    }
    lane->notes[lane->n_notes].verdict = v;
    lane->notes[lane->n_notes].text = strdup(text);
    if (lane->notes[lane->n_notes].text)
        lane->n_notes++;
}

void td_lane_say(struct td_lane *lane, enum td_verdict v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(lane, v, fmt, ap);
    va_end(ap);
}

void td_lane_no_evidence(struct td_lane *lane, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(lane, lane->by_name ? TD_INCONCLUSIVE : TD_NOT_JUDGED, fmt, ap);
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
