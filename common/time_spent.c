/* time_spent.c - what a program's threads spend their time on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/time_spent.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_llong spent[TD_TIME_SPANS_N];

static const char *const names[TD_TIME_SPANS_N] = {
#define WORDS(name, words) words,
    TD_TIME_SPANS(WORDS)
#undef WORDS
};

void td_time_spent_ns(enum td_time_span span, int64_t ns)
{
    atomic_fetch_add_explicit(&spent[span], ns, memory_order_relaxed);
}

int64_t td_time_spent(enum td_time_span span, int64_t from_ns)
{
    const int64_t now = td_clock_mono_ns();

    td_time_spent_ns(span, now - from_ns);
    return now;
}

const char *td_time_spent_words(enum td_time_span first, enum td_time_span last, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = (int)first; i <= (int)last && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s %.2f s", i > (int)first ? ", " : "", names[i],
                                 (double)atomic_load(&spent[i]) / TD_NS_PER_S);
    return out;
}
