/* arrival.h - when requests are meant to arrive at a server: a process with a rate, from a seed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Times do not depend on what the server does (an open loop), so a slow server meets the same load as
 * a fast one. Gaps between arrivals have the mean 1 / rate:
 *   constant : all are equal, and the first request arrives at 0
 *   poisson  : exponential, so that arrivals are independent of each other
 *   gamma    : of the gamma distribution with this shape: 1 is poisson, less is burstier, more is
 *              steadier. vLLM's bench serve calls the shape --burstiness.
 * The same seed gives the same times, on every machine with the same libm. */
#ifndef TD_WIRE_ARRIVAL_H
#define TD_WIRE_ARRIVAL_H

#include <stdint.h>

#include "common/error.h"

enum td_arrival_kind { TD_ARRIVAL_CONSTANT, TD_ARRIVAL_POISSON, TD_ARRIVAL_GAMMA };

#define TD_ARRIVAL_RATE_MAX 1e5
#define TD_ARRIVAL_SHAPE 0.5      /* of "gamma" without a shape: the squared spread is twice poisson's */

struct td_arrival {
    enum td_arrival_kind kind;
    double rate;                  /* a second, > 0 */
    double shape;                 /* of gamma */
    uint64_t seed;
};

/* Read "constant", "poisson", "gamma" or "gamma:SHAPE" (0.01 to 100) into kind and shape. TD_EINVAL. */
int td_arrival_parse(const char *text, struct td_arrival *out, struct td_error *err);
const char *td_arrival_name(enum td_arrival_kind kind);

/* The arrivals one after the other. */
struct td_arrival_times { struct td_arrival how; uint64_t random; double at_s; int64_t n; };
void td_arrival_begin(struct td_arrival_times *t, const struct td_arrival *how);
/* The next one, in ns after the start. Never less than the one before. */
int64_t td_arrival_next(struct td_arrival_times *t);

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
uint64_t td_arrival_random(uint64_t *state);

#endif
