/* planned.h - what a fixture was meant to hold, and what its state says about it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whoever writes a fixture writes down beforehand what is planned (the manifest's section "plan"),
 * and at the end what came of it ("state", and "seen" with its causes). Whoever judges a fixture
 * counts its contents against the plan. docs/format.md has the members. */
#ifndef TD_FORMAT_PLANNED_H
#define TD_FORMAT_PLANNED_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct td_fixture;
struct td_writer;

#define TD_PLAN_UNKNOWN (-1)

/* Numbers are TD_PLAN_UNKNOWN where nothing tells them. */
struct td_planned {
    bool stated;             /* the manifest has a plan. Else, of an older fixture, the numbers
                                follow from its suite and options */
    bool failures_allowed;   /* requests that failed were accepted when it was recorded */
    int64_t prompts, repeats;
    int64_t timed, tapped;   /* requests of these phases */
    int64_t scores;          /* requests to score recorded answers */
    int64_t ops;             /* of a replay: recorded ops to be replayed; of a copy: ops to copy */
    int64_t lost;            /* frames of the ledger that a repair gave up, and a part of the plan with
                                them; 0: none */
};
void td_planned_read(const struct td_fixture *fx, struct td_planned *out);

/* On how many starts of the server the planned repeats were recorded, each on as many; 1 where the manifest does not tell. */
int64_t td_planned_starts(const cJSON *manifest);

/* Write one number of the plan; the last one of a name holds. */
void td_planned_write(struct td_writer *w, const char *name, int64_t n);
/* Write what was seen of it at the end, and why that is less.
 *   n : as planned: "timed", "tapped", "scores", "ops" */
void td_planned_seen(struct td_writer *w, const char *name, int64_t n);
/* Write why less was seen than was planned; each cause is a sentence without a full stop.
 *   causes : [n] */
void td_planned_causes(struct td_writer *w, const char *const *causes, int n);

/* Did what was planned come true, or were its failures accepted? By the manifest alone. */
bool td_fixture_is_whole(const cJSON *manifest);

#define TD_STATE_WORDS 400
/* The state with its causes, printable: "complete", "incomplete: 36 of 50 timed requests failed
 * ...". Returns out. */
const char *td_fixture_state_words(const cJSON *manifest, char out[TD_STATE_WORDS]);

#endif
