/* op_timing.c - time ops in two builds, alternating.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_timing.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "replayer/device_condition.h"

#define MAX_RUNS 100000
#define MAX_RUNS_COLD 64

static uint64_t next_random(uint64_t *s) /* xorshift64* (Vigna, 2016) */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1du;
}

/* Choose how many runs make the faster build's sample long enough. The first sample of each build
 * warms it up and is not used. */
static int choose_runs(struct td_build_process *side[2], int first, bool cold, uint32_t *runs,
                       int64_t *pair_ns, struct td_error *err)
{
    int64_t ns[2] = {0, 0}, least;
    uint32_t n = 1, max = cold ? MAX_RUNS_COLD : MAX_RUNS;
    int i, attempt;

    for (attempt = 0; attempt < 8; attempt++) {
        for (i = 0; i < 2; i++)
            if (td_build_process_time(side[first ^ i], n, cold, &ns[i], err))
                return err ? err->code : TD_ECRASH;
        least = ns[0] < ns[1] ? ns[0] : ns[1];
        if (attempt > 0 && (least >= TD_OP_TIMING_SAMPLE_NS || n == max))
            break;
        if (attempt > 0 || least < TD_OP_TIMING_SAMPLE_NS)
            n = least > 0 ? (uint32_t)(n * (TD_OP_TIMING_SAMPLE_NS * 1.2 / (double)least)) + 1
                          : n * 8;
        n = n > max ? max : n;
    }
    *runs = n;
    *pair_ns = ns[0] + ns[1];
    return TD_OK;
}

/* The pairs of one cache state, over all starts. condition : [2], baseline and candidate */
struct series {
    bool cold;
    uint32_t runs;
    int pairs;
    cJSON *list;
    struct td_device_condition *condition;
};

/* first : whose turn is first */
static int time_pair(struct td_build_process *side[2], struct series *s, int first, struct td_error *err)
{
    int i;
    double pair[2];

    for (i = 0; i < 2; i++) {
        int which = first ^ i;
        int64_t ns;

        if (td_build_process_time(side[which], s->runs, s->cold, &ns, err))
            return err ? err->code : TD_ECRASH;
        td_device_condition_note(&s->condition[which], side[which]->condition);
        pair[which] = (double)ns / s->runs;
    }
    cJSON_AddItemToArray(s->list, cJSON_CreateDoubleArray(pair, 2));
    return TD_OK;
}

/* Choose the runs of a sample and the number of pairs that the budget allows: at the first start,
 * for all starts. At the others only warm up.
 *   first : who will be first in the pairs, and so is warmed up first */
static int set_up_series(struct td_build_process *side[2], struct series *s, int first, int starts, struct td_error *err)
{
    int64_t cost = 0, ns;
    int i;

    if (!s->runs) {
        if (choose_runs(side, first, s->cold, &s->runs, &cost, err))
            return err ? err->code : TD_ECRASH;
        s->pairs = cost * starts * TD_OP_TIMING_PAIRS * 2 > TD_OP_TIMING_BUDGET_NS
                       ? 1
                       : TD_OP_TIMING_PAIRS;
        return TD_OK;
    }
    for (i = 0; i < 2; i++) /* warm up */
        if (td_build_process_time(side[first ^ i], s->runs, s->cold, &ns, err))
            return err ? err->code : TD_ECRASH;
    return TD_OK;
}

/* Put both processes on one CPU, another one after each start. They never run at the same time.
 * With a CPU for each, a foreign process that kept one of the CPUs busy made two equal builds
 * differ by 8 % during the whole replay. */
static void share_cpu(struct td_build_process *side[2], const cpu_set_t *allowed, uint64_t *seed)
{
    int n = CPU_COUNT(allowed), pick = n > 0 ? (int)(next_random(seed) % (uint64_t)n) : 0, cpu;
    cpu_set_t one;

    CPU_ZERO(&one);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && pick-- == 0)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) != 1)
        return;
    for (int i = 0; i < 2; i++)
        if (side[i]->proc.pid > 0) /* 0 is this process */
            sched_setaffinity(side[i]->proc.pid, sizeof one, &one);
}

static bool is_stopped(const struct td_build_process *r)
{
    return r->opt.stop && *r->opt.stop;
}

/* An op while it is timed. */
struct timing {
    struct td_op_timed *of;
    cJSON *found;                    /* becomes of->found */
    struct td_device_condition condition[2];
    struct series series[2];
    bool failed;
};

static bool begin_op(struct timing *t, struct td_op_timed *of)
{
    t->of = of;
    t->found = cJSON_CreateObject();
    t->series[0] = (struct series){.list = cJSON_AddArrayToObject(t->found, "hot"), .condition = t->condition};
    t->series[1] = (struct series){.cold = true, .list = cJSON_AddArrayToObject(t->found, "cold"), .condition = t->condition};
    return t->series[1].list;
}

/* One start of an op. Each sample comes after one of the other build, which has taken the caches: a build that runs twice in a row is
 * faster.
 *   first : whose turn is first */
static int time_op(struct td_build_process *side[2], struct timing *t, int first, int starts, struct td_error *err)
{
    int i, p, rc = TD_OK;

    for (i = 0; i < 2 && !rc; i++)
        rc = td_build_process_prepare(side[first ^ i], t->of->call, err);
    for (i = 0; i < 2 && !rc; i++) {
        rc = set_up_series(side, &t->series[i], first, starts, err);
        for (p = 0; p < t->series[i].pairs && !rc; p++)
            rc = time_pair(side, &t->series[i], first, err);
    }
    for (i = 0; i < 2; i++)
        if (side[i]->sock >= 0)
            td_build_process_forget(side[i], NULL);
    return rc;
}

/* Start both builds anew, on one CPU. */
static int start_both(struct td_build_process *side[2], int first, const cpu_set_t *allowed, uint64_t *seed, struct td_error *err)
{
    int i, rc = TD_OK;

    for (i = 0; i < 2 && !rc && !is_stopped(side[0]); i++)
        rc = td_build_process_restart(side[first ^ i], err);
    if (!rc)
        share_cpu(side, allowed, seed);
    return rc;
}

/* Start both builds anew, and time each op that has not failed. Both start again, too, where an op ended one of the
 * processes: what is started alone, by td_build_process_prepare(), has any CPU. False: no op is left.
 *   turn : even and odd by turns, so that each build is first in half of the starts */
static bool time_after_restart(struct td_build_process *side[2], struct timing *t, int n, const cpu_set_t *allowed, uint64_t *seed,
                               int turn, int starts)
{
    const int first = turn & 1;
    struct td_error err = {0};
    bool left = false;
    int i, rc = start_both(side, first, allowed, seed, &err);

    for (i = 0; i < n; i++) {
        if (t[i].failed)
            continue;
        if (!rc && (side[0]->sock < 0 || side[1]->sock < 0))
            rc = start_both(side, first, allowed, seed, &err);
        if (!rc && is_stopped(side[0])) /* no process is started for the others any more */
            rc = td_fail(&err, TD_EINTR, "stopped by a signal");
        if (rc)
            t[i].of->err = err;
        t[i].failed = rc || time_op(side, &t[i], first, starts, &t[i].of->err);
        left |= !t[i].failed;
    }
    return left;
}

bool td_op_timing_shares(const struct td_build_process *baseline, const struct td_build_process *candidate)
{
    return td_build_process_is_of_gpu(baseline) && td_build_process_is_of_gpu(candidate);
}

static void add_method(cJSON *o, const struct td_build_process *candidate, bool shares)
{
#if defined(__x86_64__)
    const char *cold_by = "clflush";
#else
    const char *cold_by = "sweep";
#endif
    const bool hip = !strcmp(candidate->opt.provider, "hip"), on_gpu = td_build_process_is_of_gpu(candidate) || candidate->on_gpu;

    /* torch_gpu_ops.py, renew */
    cJSON_AddStringToObject(o, "start", on_gpu && !shares ? "places" : "process");
    cJSON_AddStringToObject(o, "clock", hip ? "hip-event" : on_gpu ? "cuda-event" : "monotonic");
    cJSON_AddStringToObject(o, "cold_by", on_gpu ? "sweep" : cold_by);
}

/* starts_of : -1: it shared none */
static void end_op(struct timing *t, const struct td_build_process *candidate, int starts, int64_t starts_of)
{
    cJSON *o = t->found, *device;

    if (t->failed) {
        cJSON_Delete(o);
        return;
    }
    cJSON_AddNumberToObject(o, "starts", starts);
    if (starts_of >= 0)
        cJSON_AddNumberToObject(o, "starts_of", (double)starts_of);
    cJSON_AddNumberToObject(o, "runs_hot", t->series[0].runs);
    cJSON_AddNumberToObject(o, "runs_cold", t->series[1].runs);
    add_method(o, candidate, starts_of >= 0);
    if ((device = td_device_condition_json(&t->condition[0], &t->condition[1])))
        cJSON_AddItemToObject(o, "device", device);
    t->of->found = o;
}

/* Time ops that share all their starts. */
static void time_together(struct td_build_process *side[2], struct td_op_timed *ops, int n, void (*tell)(void *ctx, int start, int starts),
                          void *ctx)
{
    const bool shares = td_op_timing_shares(side[0], side[1]);
    const int starts = shares ? TD_OP_TIMING_STARTS_SHARED : TD_OP_TIMING_STARTS;
    struct timing *t = calloc((size_t)n, sizeof *t);
    uint64_t state = (uint64_t)ops[0].op * 2654435761u + 88172645463325252u;
    const int coin = (int)(next_random(&state) >> 63);
    bool left = true;
    cpu_set_t allowed;
    int i;

    for (i = 0; i < n; i++) {
        ops[i].found = NULL;
        if (!t)
            td_fail(&ops[i].err, TD_ENOMEM, "out of memory for timing %d ops", n);
        else if ((t[i].failed = !begin_op(&t[i], &ops[i])))
            td_fail(&ops[i].err, TD_ENOMEM, "out of memory for timing an op");
    }
    if (!t)
        return;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        CPU_ZERO(&allowed);
    for (i = 0; i < starts && left; i++) {
        if (tell)
            tell(ctx, i, starts);
        left = time_after_restart(side, t, n, &allowed, &state, coin + i, starts);
    }
    for (i = 0; i < 2; i++) /* let them use all CPUs again */
        if (side[i]->proc.pid > 0 && CPU_COUNT(&allowed))
            sched_setaffinity(side[i]->proc.pid, sizeof allowed, &allowed);
    for (i = 0; i < n; i++)
        end_op(&t[i], side[1], starts, shares ? ops[0].op : -1);
    free(t);
}

void td_op_timing_measure(struct td_build_process *baseline, struct td_build_process *candidate, struct td_op_timed *ops, int n,
                          void (*tell)(void *ctx, int start, int starts), void *ctx)
{
    struct td_build_process *side[2] = {baseline, candidate};
    const int each = td_op_timing_shares(baseline, candidate) ? n : 1;

    for (int i = 0; i < n; i += each)
        time_together(side, ops + i, each, tell, ctx);
}
