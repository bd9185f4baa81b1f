/* send_plan.h - a list of requests to send: their order, groups and times.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_SEND_PLAN_H
#define TD_WIRE_SEND_PLAN_H

#include "common/error.h"
#include "format/records.h"
#include "wire/api.h"

/* One request. Requests of a closed loop follow one another: the next one is sent as soon as fewer than
 * `concurrency` are in flight. Others are sent in groups: those of a group are in flight together. The next loop,
 * or group, waits until all are done. */
struct td_plan_item {
    char *prompt_id, *category, *api, *method, *path;
    char *role;               /* "": ordinary, as NULL; "ids": fill_ids.h; "scores": scores.h */
    char *body; size_t body_len;
    int32_t repeat, concurrency;
    int32_t scored_from;      /* role "scores": where the recorded answer begins; else 0 */
    enum td_phase phase;
    int64_t group;
    int64_t loop;             /* > 0: number of its closed loop; 0: none */
    int64_t connection;       /* > 0: the recorded connection that it used; 0: not told */
    bool last_of_connection;  /* no later one of the plan uses it */
    size_t before;            /* 1 + place in the plan of the one before on that connection, which ends first in a loop; 0: none */
    int64_t at_ns;            /* after the plan's start; -1: once the group before is done */
};
struct td_plan { struct td_plan_item *items; size_t n, cap; };
#define TD_PLAN_INIT {NULL, 0, 0}
#define TD_PLAN_AS_SENT (-1)

/* Append a request; strings and body are copied. TD_ENOMEM, TD_ELIMIT. */
int td_plan_add(struct td_plan *p, const struct td_plan_item *item, struct td_error *err);
void td_plan_release(struct td_plan *p);
/* Give back what an item holds, once it was sent: a plan that grows would keep all of it. Its place stays. */
void td_plan_item_release(struct td_plan_item *it);
int64_t td_plan_next_group(const struct td_plan *p);   /* largest group + 1 */
int64_t td_plan_next_loop(const struct td_plan *p);    /* largest loop + 1 */
/* Append the requests of a recording, in the order in which they were sent. Groups are the recorded
 * ones; without these, exchanges whose times overlapped and that asked for the same concurrency. Loops are the
 * recorded ones, where nothing has a time; repeats that start over go on with a loop that held all of them. What others
 * sent (a passive recording) is one loop then.
 *   xs      : [n], any order, borrowed; bodies are written from `request`
 *   phases  : bit mask of 1 << enum td_phase
 *   speed   : 0 as soon as possible, but of what was due at a time, or sent by others, no more in flight than
 *             recorded (one loop); 1 at the recorded times, N times faster; TD_PLAN_AS_SENT: at the intended times what
 *             had one, the rest as soon as possible
 *   skipped : exchanges without a JSON request */
int td_plan_from_exchanges(const struct td_exchange *xs, size_t n, unsigned phases, double speed, struct td_plan *p,
                           size_t *skipped, struct td_error *err);

/* Remove the fields that the server refuses (server->without) from all bodies. TD_ENOMEM. */
int td_plan_strip(struct td_plan *p, const struct td_api_server *server, struct td_error *err);

#endif
