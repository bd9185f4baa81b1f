/* record_load.c - how many timed requests a recording sends, and when.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/record_load.h"

#include <stdio.h>
#include <string.h>

int td_record_load_check(struct td_record_options *o, struct td_error *err)
{
    const bool load = o->rate > 0 || o->requests || o->duration_s > 0;

    if (strcmp(o->connections, "pooled") && strcmp(o->connections, "never"))
        return td_fail(err, TD_EINVAL, "--connections %.40s: give pooled or never", o->connections);
    if (o->arrival && !(o->rate > 0))
        return td_fail(err, TD_EINVAL, "--arrival says how requests arrive at a rate; give --rate, too");
    if (o->rate > 0 && o->concurrency)
        return td_fail(err, TD_EINVAL, "--rate and --concurrency exclude each other: at a rate, requests do not wait for others");
    if (load && o->starts > 1)
        return td_fail(err, TD_EINVAL, "--starts sends --repeat to each start; leave out --rate, --requests and --duration");
    if (o->rate > 0) {
        o->load.rate = o->rate;
        o->load.seed = (uint64_t)o->seed;
        return td_arrival_parse(o->arrival ? o->arrival : "poisson", &o->load, err);
    }
    return TD_OK;
}

/* How many arrive before the duration is over, `most` at most. */
static int64_t count_arrivals(const struct td_record_options *o, int64_t most)
{
    struct td_arrival_times t;
    int64_t n = 0;

    td_arrival_begin(&t, &o->load);
    while (n < most && td_arrival_next(&t) < (int64_t)(o->duration_s * 1e9))
        n++;
    return n;
}

int td_record_load_plan(const struct td_record_options *o, size_t prompts, struct td_record_load *out, struct td_error *err)
{
    const int64_t one = (int64_t)prompts, most = TD_RECORD_MOST_REQUESTS;

    *out = (struct td_record_load){.requests = o->requests ? o->requests : one * o->repeat};
    if (o->rate > 0 && o->duration_s > 0)
        out->requests = count_arrivals(o, o->requests ? o->requests : most + 1);
    else if (o->duration_s > 0 && !o->requests)
        *out = (struct td_record_load){.requests = one, .until_time = true};
    if (!out->requests)
        return td_fail(err, TD_EINVAL, "no request arrives within --duration %g s at --rate %g; give more of either", o->duration_s, o->rate);
    if ((o->rate > 0 || o->requests) && out->requests > most)
        return td_fail(err, TD_EINVAL, "more than %lld requests; give less of --rate, --duration or --repeat", (long long)most);
    out->repeats = (out->requests + one - 1) / one;
    return TD_OK;
}

const char *td_record_load_words(const struct td_record_options *o, const struct td_record_load *l, char *out, size_t n)
{
    if (o->rate > 0)
        snprintf(out, n, " in turn, %g requests a second (%s)", o->rate, td_arrival_name(o->load.kind));
    else if (l->until_time)
        snprintf(out, n, ", all of them again until %g s are over", o->duration_s);
    else if (o->requests)
        snprintf(out, n, " in turn");
    else
        snprintf(out, n, ", each %lld times", (long long)o->repeat);
    return out;
}
