/* op_timing.c - time one op in two builds, alternating.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_timing.h"

#include <sched.h>
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
static int set_up_series(struct td_build_process *side[2], struct series *s, int first, struct td_error *err)
{
    int64_t cost = 0, ns;
    int i;

    if (!s->runs) {
        if (choose_runs(side, first, s->cold, &s->runs, &cost, err))
            return err ? err->code : TD_ECRASH;
        s->pairs = cost * TD_OP_TIMING_STARTS * TD_OP_TIMING_PAIRS * 2 > TD_OP_TIMING_BUDGET_NS
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
    sched_setaffinity(side[0]->proc.pid, sizeof one, &one);
    sched_setaffinity(side[1]->proc.pid, sizeof one, &one);
}

/* Each sample comes after one of the other build, which has taken the caches: a build that runs twice in a row is faster.
 *   turn : even and odd by turns, so that each build is first in half of the starts */
static int time_after_restart(struct td_build_process *side[2], const struct td_op_call *op,
                         struct series series[2], const cpu_set_t *allowed, uint64_t *seed, int turn,
                         struct td_error *err)
{
    int first = turn & 1, i, p, rc = TD_OK;

    for (i = 0; i < 2 && !rc; i++)
        rc = td_build_process_restart(side[first ^ i], err);
    if (!rc)
        share_cpu(side, allowed, seed);
    for (i = 0; i < 2 && !rc; i++)
        rc = td_build_process_prepare(side[first ^ i], op, err);
    for (i = 0; i < 2 && !rc; i++) {
        rc = set_up_series(side, &series[i], first, err);
        for (p = 0; p < series[i].pairs && !rc; p++)
            rc = time_pair(side, &series[i], first, err);
    }
    for (i = 0; i < 2; i++)
        if (side[i]->sock >= 0)
            td_build_process_forget(side[i], NULL);
    return rc;
}

static void add_method(cJSON *o, const struct td_build_process *candidate)
{
#if defined(__x86_64__)
    const char *cold_by = "clflush";
#else
    const char *cold_by = "sweep";
#endif
    const char *provider = candidate->opt.provider;
    bool hip = !strcmp(provider, "hip"), on_gpu = hip || !strcmp(provider, "cuda") || candidate->on_gpu;

    cJSON_AddStringToObject(o, "start", on_gpu ? "places" : "process"); /* provider_gpu.c, renew; torch_gpu_ops.py, renew */
    cJSON_AddStringToObject(o, "clock", hip ? "hip-event" : on_gpu ? "cuda-event" : "monotonic");
    cJSON_AddStringToObject(o, "cold_by", on_gpu ? "sweep" : cold_by);
}

int td_op_timing_measure(struct td_build_process *baseline, struct td_build_process *candidate,
                         const struct td_op_call *op, uint64_t seed, cJSON **out,
                         struct td_error *err)
{
    struct td_build_process *side[2] = {baseline, candidate};
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    cJSON *o = *out = cJSON_CreateObject();
    struct td_device_condition condition[2] = {0};
    struct series series[2] = {{.list = cJSON_AddArrayToObject(o, "hot"), .condition = condition},
                               {.cold = true, .list = cJSON_AddArrayToObject(o, "cold"), .condition = condition}};
    cJSON *device;
    cpu_set_t allowed;
    int i, rc = TD_OK;
    const int coin = (int)(next_random(&state) >> 63);

    if (sched_getaffinity(0, sizeof allowed, &allowed))
        CPU_ZERO(&allowed);
    for (i = 0; i < TD_OP_TIMING_STARTS && !rc; i++)
        rc = time_after_restart(side, op, series, &allowed, &state, coin + i, err);
    for (i = 0; i < 2; i++) /* let them use all CPUs again; a process started since does already */
        if (side[i]->proc.pid > 0 && CPU_COUNT(&allowed))
            sched_setaffinity(side[i]->proc.pid, sizeof allowed, &allowed);
    cJSON_AddNumberToObject(o, "starts", TD_OP_TIMING_STARTS);
    cJSON_AddNumberToObject(o, "runs_hot", series[0].runs);
    cJSON_AddNumberToObject(o, "runs_cold", series[1].runs);
    add_method(o, candidate);
    if ((device = td_device_condition_json(&condition[0], &condition[1])))
        cJSON_AddItemToObject(o, "device", device);
    if (rc) {
        cJSON_Delete(o);
        *out = NULL;
    }
    return rc;
}
