/* op_timing.c - time one op in two builds, alternating.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/op_timing.h"

#include <sched.h>
#include <string.h>

#include "common/clock.h"
#include "replayer/condition.h"

#define MAX_RUNS 100000
#define MAX_RUNS_COLD 64

static uint64_t next_random(uint64_t *s) /* xorshift64* (Vigna, 2016) */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 0x2545f4914f6cdd1du;
}

/* Runs that make a sample of the faster build long enough; the first sample of each warms up and is not used. */
static int calibrate(struct td_runner *side[2], bool cold, uint32_t *runs, int64_t *pair_ns, struct td_error *err)
{
    int64_t ns[2] = {0, 0}, least;
    uint32_t n = 1, max = cold ? MAX_RUNS_COLD : MAX_RUNS;
    int i, round;

    for (round = 0; round < 8; round++) {
        for (i = 0; i < 2; i++)
            if (td_runner_time(side[i], n, cold, &ns[i], err))
                return err ? err->code : TD_ECRASH;
        least = ns[0] < ns[1] ? ns[0] : ns[1];
        if (round > 0 && (least >= TD_SPEED_SAMPLE_NS || n == max))
            break;
        if (round > 0 || least < TD_SPEED_SAMPLE_NS)
            n = least > 0 ? (uint32_t)(n * (TD_SPEED_SAMPLE_NS * 1.2 / (double)least)) + 1 : n * 8;
        n = n > max ? max : n;
    }
    *runs = n;
    *pair_ns = ns[0] + ns[1];
    return TD_OK;
}

/* What is measured of one cache state over all starts. */
struct series { bool cold; uint32_t runs; int pairs; cJSON *list; struct td_condition *condition; };

static int measure_pair(struct td_runner *side[2], struct series *s, uint64_t *seed, struct td_error *err)
{
    int first = (int)(next_random(seed) >> 63), i;
    double pair[2];

    for (i = 0; i < 2; i++) {
        int which = first ^ i;
        int64_t ns;

        if (td_runner_time(side[which], s->runs, s->cold, &ns, err))
            return err ? err->code : TD_ECRASH;
        td_condition_note(&s->condition[which], side[which]->condition);
        pair[which] = (double)ns / s->runs;
    }
    cJSON_AddItemToArray(s->list, cJSON_CreateDoubleArray(pair, 2));
    return TD_OK;
}

/* How many runs make a sample, and how many pairs the budget allows; found at the first start, kept for the others. */
static int set_up(struct td_runner *side[2], struct series *s, struct td_error *err)
{
    int64_t cost = 0, ns;
    int i;

    if (!s->runs) {
        if (calibrate(side, s->cold, &s->runs, &cost, err))
            return err ? err->code : TD_ECRASH;
        s->pairs = cost * TD_SPEED_STARTS * TD_SPEED_PAIRS * 2 > TD_SPEED_BUDGET_NS ? 1 : TD_SPEED_PAIRS;
        return TD_OK;
    }
    for (i = 0; i < 2; i++) /* warm up */
        if (td_runner_time(side[i], s->runs, s->cold, &ns, err))
            return err ? err->code : TD_ECRASH;
    return TD_OK;
}

/* Both processes on one CPU, another for each start. They never run at the same time; on CPUs of their own, a neighbour that
 * keeps one of them busy made two equal builds differ by 8 % for as long as the run lasted. */
static void share_cpu(struct td_runner *side[2], const cpu_set_t *allowed, uint64_t *seed)
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

static int measure_start(struct td_runner *side[2], const struct td_op_call *op, struct series series[2], const cpu_set_t *allowed,
                         uint64_t *seed, struct td_error *err)
{
    int first = (int)(next_random(seed) >> 63), i, p, rc = TD_OK;

    for (i = 0; i < 2 && !rc; i++)
        rc = td_runner_restart(side[first ^ i], err);
    if (!rc)
        share_cpu(side, allowed, seed);
    for (i = 0; i < 2 && !rc; i++)
        rc = td_runner_prepare(side[first ^ i], op, err);
    for (i = 0; i < 2 && !rc; i++) {
        rc = set_up(side, &series[i], err);
        for (p = 0; p < series[i].pairs && !rc; p++)
            rc = measure_pair(side, &series[i], seed, err);
    }
    for (i = 0; i < 2; i++)
        if (side[i]->sock >= 0)
            td_runner_forget(side[i], NULL);
    return rc;
}

static void name_means(cJSON *o, const char *provider)
{
#if defined(__x86_64__)
    const char *cold_by = "clflush";
#else
    const char *cold_by = "sweep";
#endif
    bool cuda = !strcmp(provider, "cuda"), on_gpu = cuda || !strcmp(provider, "hip");

    cJSON_AddStringToObject(o, "start", on_gpu ? "places" : "process"); /* provider_cuda.c, renew */
    cJSON_AddStringToObject(o, "clock", cuda ? "cuda-event" : on_gpu ? "hip-event" : "monotonic");
    cJSON_AddStringToObject(o, "cold_by", on_gpu ? "sweep" : cold_by);
}

int td_op_timing_measure(struct td_runner *baseline, struct td_runner *candidate, const struct td_op_call *op, uint64_t seed,
                         cJSON **out, struct td_error *err)
{
    struct td_runner *side[2] = {baseline, candidate};
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    cJSON *o = *out = cJSON_CreateObject();
    struct td_condition condition[2] = {0};
    struct series series[2] = {{.list = cJSON_AddArrayToObject(o, "hot"), .condition = condition},
                               {.cold = true, .list = cJSON_AddArrayToObject(o, "cold"), .condition = condition}};
    cJSON *device;
    cpu_set_t allowed;
    int i, rc = TD_OK;

    if (sched_getaffinity(0, sizeof allowed, &allowed))
        CPU_ZERO(&allowed);
    for (i = 0; i < TD_SPEED_STARTS && !rc; i++)
        rc = measure_start(side, op, series, &allowed, &state, err);
    for (i = 0; i < 2; i++) /* a process that was started anew since has the whole set already */
        if (side[i]->proc.pid > 0 && CPU_COUNT(&allowed))
            sched_setaffinity(side[i]->proc.pid, sizeof allowed, &allowed);
    cJSON_AddNumberToObject(o, "starts", TD_SPEED_STARTS);
    cJSON_AddNumberToObject(o, "runs_hot", series[0].runs);
    cJSON_AddNumberToObject(o, "runs_cold", series[1].runs);
    name_means(o, candidate->opt.provider);
    if ((device = td_condition_json(&condition[0], &condition[1])))
        cJSON_AddItemToObject(o, "device", device);
    if (rc) {
        cJSON_Delete(o);
        *out = NULL;
    }
    return rc;
}
