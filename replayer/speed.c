/* speed.c - time one op in two builds, alternating.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/speed.h"

#include "common/clock.h"

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

static int measure_pairs(struct td_runner *side[2], bool cold, uint64_t *seed, cJSON *out, struct td_error *err)
{
    cJSON *list = cJSON_AddArrayToObject(out, cold ? "cold" : "hot");
    int64_t cost = 0, until;
    uint32_t runs = 1;
    int p;

    if (calibrate(side, cold, &runs, &cost, err))
        return err ? err->code : TD_ECRASH;
    until = td_clock_mono_ns() + TD_SPEED_BUDGET_NS / 2;
    for (p = 0; p < TD_SPEED_PAIRS && (p < TD_SPEED_MIN_PAIRS || td_clock_mono_ns() + cost < until); p++) {
        int first = (int)(next_random(seed) >> 63), i;
        int64_t ns[2];
        double pair[2];

        for (i = 0; i < 2; i++) {
            int s = first ^ i;

            if (td_runner_time(side[s], runs, cold, &ns[s], err))
                return err ? err->code : TD_ECRASH;
        }
        pair[0] = (double)ns[0] / runs;
        pair[1] = (double)ns[1] / runs;
        cJSON_AddItemToArray(list, cJSON_CreateDoubleArray(pair, 2));
    }
    cJSON_AddNumberToObject(out, cold ? "runs_cold" : "runs_hot", runs);
    return TD_OK;
}

int td_speed_measure(struct td_runner *baseline, struct td_runner *candidate, const struct td_op_call *op, uint64_t seed,
                     cJSON **out, struct td_error *err)
{
    struct td_runner *side[2] = {baseline, candidate};
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    int i, rc = TD_OK;

    *out = cJSON_CreateObject();
    for (i = 0; i < 2 && !rc; i++)
        rc = td_runner_prepare(side[i], op, err);
    if (!rc)
        rc = measure_pairs(side, false, &state, *out, err);
    if (!rc)
        rc = measure_pairs(side, true, &state, *out, err);
    for (i = 0; i < 2; i++)
        if (side[i]->sock >= 0)
            td_runner_forget(side[i], NULL);
    cJSON_AddStringToObject(*out, "clock", "monotonic");
#if defined(__x86_64__)
    cJSON_AddStringToObject(*out, "cold_by", "clflush");
#else
    cJSON_AddStringToObject(*out, "cold_by", "sweep");
#endif
    if (rc) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    return rc;
}
