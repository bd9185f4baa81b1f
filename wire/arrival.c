/* arrival.c - when requests are meant to arrive at a server: a process with a rate, from a seed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/arrival.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = {"constant", "poisson", "gamma"};

const char *td_arrival_name(enum td_arrival_kind kind)
{
    return NAMES[kind];
}

int td_arrival_parse(const char *text, struct td_arrival *out, struct td_error *err)
{
    const size_t gamma = strlen(NAMES[TD_ARRIVAL_GAMMA]);
    char *end = NULL;
    int i;

    out->shape = 0;
    for (i = 0; i < 3; i++)
        if (!strcmp(text, NAMES[i])) {
            out->kind = (enum td_arrival_kind)i;
            out->shape = i == TD_ARRIVAL_GAMMA ? TD_ARRIVAL_SHAPE : 0;
            return TD_OK;
        }
    out->kind = TD_ARRIVAL_GAMMA;
    if (!strncmp(text, NAMES[TD_ARRIVAL_GAMMA], gamma) && text[gamma] == ':')
        out->shape = strtod(text + gamma + 1, &end);
    if (!end || *end || !(out->shape >= 0.01 && out->shape <= 100))
        return td_fail(err, TD_EINVAL,
                       "--arrival %.40s: give constant, poisson, or gamma:SHAPE with a shape from 0.01 to 100", text);
    return TD_OK;
}

/* ---- numbers by chance ----------------------------------------------------------------------- */

uint64_t td_arrival_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In (0, 1]: its logarithm is finite. */
static double uniform(uint64_t *state)
{
    return (double)((td_arrival_random(state) >> 11) + 1) * 0x1p-53;
}

/* Standard normal, by Box and Muller's transform. */
static double normal(uint64_t *state)
{
    const double r = sqrt(-2 * log(uniform(state)));

    return r * cos(2 * 3.14159265358979323846 * uniform(state));
}

/* Gamma with this shape and scale 1 (Marsaglia, Tsang: A simple method for generating gamma variables, 2000). A shape
 * below 1 is made of that plus 1. */
static double gamma_variate(double shape, uint64_t *state)
{
    const double less = shape < 1 ? pow(uniform(state), 1 / shape) : 1, d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3,
                 c = 1 / sqrt(9 * d);

    for (;;) {
        const double x = normal(state), v = 1 + c * x, v3 = v * v * v;

        if (v > 0 && log(uniform(state)) < x * x / 2 + d - d * v3 + d * log(v3))
            return d * v3 * less;
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

void td_arrival_begin(struct td_arrival_times *t, const struct td_arrival *how)
{
    *t = (struct td_arrival_times){.how = *how, .random = how->seed};
}

/* In mean gaps. */
static double next_gap(struct td_arrival_times *t)
{
    if (t->how.kind == TD_ARRIVAL_GAMMA)
        return gamma_variate(t->how.shape, &t->random) / t->how.shape;
    return -log(uniform(&t->random));
}

int64_t td_arrival_next(struct td_arrival_times *t)
{
    if (t->how.kind == TD_ARRIVAL_CONSTANT)
        t->at_s = (double)t->n / t->how.rate;
    else
        t->at_s += next_gap(t) / t->how.rate;
    t->n++;
    return t->at_s < 9e9 ? (int64_t)(t->at_s * 1e9) : INT64_MAX / 2;
}
