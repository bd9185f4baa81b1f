/* replay_options.c - read values of the command line.
 * SPDX-License-Identifier: Apache-2.0 */
#include "replayer/replay_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/time_unit.h"
#include "wire/send_plan.h"

int td_shard_parse(const char *text, struct td_shard *out, struct td_error *err)
{
    char *slash = NULL, *end = NULL;
    long long i = strtoll(text, &slash, 10), n = *slash == '/' ? strtoll(slash + 1, &end, 10) : 0;

    if (slash == text || *slash != '/' || end == slash + 1 || *end || n < 1 || n > 1000000 || i < 1 || i > n)
        return td_fail(err, TD_EINVAL, "--shard: \"%s\" is not I/N; the third part of eight is 3/8",
                       text);
    *out = (struct td_shard){i, n};
    return TD_OK;
}

bool td_shard_has(const struct td_shard *s, int64_t number)
{
    int64_t r = number % s->of;

    return (r < 0 ? r + s->of : r) == s->index - 1;
}

int td_timing_parse(const char *text, double *speed, struct td_error *err)
{
    char *end;

    *speed = TD_PLAN_AS_SENT;
    if (!text)
        return TD_OK;
    if (!strcmp(text, "recorded") || !strcmp(text, "asap")) {
        *speed = text[0] == 'r';
        return TD_OK;
    }
    *speed = text[0] == 'x' ? strtod(text + 1, &end) : 0;
    if (text[0] != 'x' || end == text + 1 || *end || !(*speed > 0) || *speed > 1e6)
        return td_fail(err, TD_EINVAL, "--timing: \"%s\" is none of recorded, asap, xN (x2: twice as fast)", text);
    return TD_OK;
}

/* Read a decimal number, as 90 or 1.5: digits, with one point at most. *end: what follows it. NAN: there is none. */
static double read_decimal(const char *text, const char **end)
{
    static const char DIGITS[] = "0123456789";
    const size_t whole = strspn(text, DIGITS), part = text[whole] == '.' ? 1 + strspn(text + whole + 1, DIGITS) : 0;
    char number[40];

    *end = text + whole + part;
    if (!whole || part == 1 || whole + part >= sizeof number)
        return NAN;
    memcpy(number, text, whole + part);
    number[whole + part] = '\0';
    return strtod(number, NULL);
}

int td_time_parse(const char *text, double *seconds, struct td_error *err)
{
    const char *end;

    *seconds = 0;
    if (!strcmp(text, "all"))
        return TD_OK;
    *seconds = read_decimal(text, &end);
    *seconds *= td_time_unit(end);
    if (*seconds >= 1e-3 && *seconds <= 1e7)
        return TD_OK;
    return td_fail(err, TD_EINVAL, "--time: \"%.40s\" is none of 90, 90s, 15m, 2h (1 ms at least), all", text);
}

int td_cache_size_parse(const char *text, int64_t *bytes, struct td_error *err)
{
    static const struct { const char *name; double bytes; } units[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1024.0 * (1 << 30)}};
    const char *end;
    const double v = read_decimal(text, &end);
    size_t i;

    for (i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].name) && v * units[i].bytes < 9e18) {
            *bytes = (int64_t)(v * units[i].bytes);
            return TD_OK;
        }
    return td_fail(err, TD_EINVAL, "--cache-size: \"%.40s\" is no size, as 4G or 512M", text);
}
