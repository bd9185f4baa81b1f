/* clock.c - monotonic and wall clock.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"

#include <time.h>

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * TD_NS_PER_S + ts.tv_nsec;
}

int64_t td_clock_mono_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

int64_t td_clock_wall_ns(void)
{
    return read_clock_ns(CLOCK_REALTIME);
}

void td_clock_sleep_until(int64_t mono_ns)
{
    struct timespec ts = {mono_ns / TD_NS_PER_S, mono_ns % TD_NS_PER_S};

    if (mono_ns > 0)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static void format_utc(int64_t wall_ns, const char *fmt, char *out, size_t n)
{
    time_t t = (time_t)(wall_ns / TD_NS_PER_S);
    struct tm tm;

    gmtime_r(&t, &tm);
    if (!strftime(out, n, fmt, &tm) && n)
        out[0] = '\0';
}

void td_clock_stamp(int64_t wall_ns, char *out, size_t n)
{
    format_utc(wall_ns, "%Y%m%dT%H%M%SZ", out, n);
}

void td_clock_iso(int64_t wall_ns, char *out, size_t n)
{
    format_utc(wall_ns, "%Y-%m-%dT%H:%M:%SZ", out, n);
}
