/* device_condition.c - sums of a device's clocks, temperature and power over the samples of a timed op.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/device_condition.h"

#include <stdio.h>
#include <string.h>

/* The bits of nvmlClocksEventReasons that make a GPU slower than its user asked for. Not among
 * them: idle (1), clocks set by an administrator (2), sync boost (16), display (256). */
static const struct { int64_t bit; const char *name; } throttles[] = {
    {4, "power cap"}, {8, "hardware slowdown"}, {32, "thermal (software)"}, {64, "thermal (hardware)"}, {128, "power brake"},
};
#define N_THROTTLES (sizeof throttles / sizeof *throttles)

static int64_t throttling_bits(int64_t reasons)
{
    int64_t bits = 0;

    for (size_t i = 0; i < N_THROTTLES; i++)
        bits |= reasons & throttles[i].bit;
    return bits;
}

/* Add a line of five integers. False: the line is a sentence. */
static bool add_reading(struct td_device_condition_sum *s, const char *line)
{
    int v[TD_DEVICE_CONDITION_VALUES];
    long long reasons;

    if (sscanf(line, "%d %d %d %d %lld", &v[0], &v[1], &v[2], &v[3], &reasons) != 5)
        return false;
    for (int i = 0; i < TD_DEVICE_CONDITION_VALUES; i++) {
        if (v[i] < 0)
            continue;
        s->value[i].least = s->value[i].n && s->value[i].least < v[i] ? s->value[i].least : v[i];
        s->value[i].most = s->value[i].n && s->value[i].most > v[i] ? s->value[i].most : v[i];
        s->value[i].sum += v[i];
        s->value[i].n++;
    }
    if (reasons >= 0) {
        s->samples++;
        s->reasons |= reasons;
        s->throttled += throttling_bits(reasons) != 0;
    }
    return true;
}

void td_device_condition_note(struct td_device_condition *c, const char *text)
{
    const char *second = strchr(text, '\n');

    if (!*text)
        return;
    if (!add_reading(&c->before, text))
        snprintf(c->unknown, sizeof c->unknown, "%.*s", (int)strcspn(text, "\n"), text);
    if (second)
        add_reading(&c->after, second + 1);
}

/* Add [least, mean, most], each divided by unit. */
static void add_value(cJSON *o, const struct td_device_condition_sum *s, int i, const char *name,
                      double unit)
{
    double all[3];

    if (!s->value[i].n)
        return;
    all[0] = s->value[i].least / unit;
    all[1] = s->value[i].sum / s->value[i].n / unit;
    all[2] = s->value[i].most / unit;
    cJSON_AddItemToObject(o, name, cJSON_CreateDoubleArray(all, 3));
}

static cJSON *sum_json(const struct td_device_condition_sum *s)
{
    cJSON *o = cJSON_CreateObject(), *names;

    add_value(o, s, 0, "sm_mhz", 1);
    add_value(o, s, 1, "mem_mhz", 1);
    add_value(o, s, 2, "temp_c", 1);
    add_value(o, s, 3, "power_w", 1000);
    if (!s->samples)
        return o;
    cJSON_AddNumberToObject(o, "samples", s->samples);
    cJSON_AddNumberToObject(o, "throttled", s->throttled);
    names = cJSON_AddArrayToObject(o, "throttled_by");
    for (size_t i = 0; i < N_THROTTLES; i++)
        if (s->reasons & throttles[i].bit)
            cJSON_AddItemToArray(names, cJSON_CreateString(throttles[i].name));
    return o;
}

static void add_side(cJSON *o, const char *name, const struct td_device_condition *c)
{
    cJSON *side = cJSON_AddObjectToObject(o, name);

    if (c->unknown[0]) {
        cJSON_AddStringToObject(side, "unknown", c->unknown);
        return;
    }
    cJSON_AddItemToObject(side, "before", sum_json(&c->before));
    cJSON_AddItemToObject(side, "after", sum_json(&c->after));
}

static bool is_empty(const struct td_device_condition *c)
{
    return !c->unknown[0] && !c->after.samples && !c->after.value[0].n && !c->after.value[1].n &&
           !c->after.value[2].n && !c->after.value[3].n;
}

cJSON *td_device_condition_json(const struct td_device_condition *baseline,
                                const struct td_device_condition *candidate)
{
    cJSON *o;

    if (is_empty(baseline) && is_empty(candidate))
        return NULL;
    if (!(o = cJSON_CreateObject()))
        return NULL;
    add_side(o, "baseline", baseline);
    add_side(o, "candidate", candidate);
    return o;
}
