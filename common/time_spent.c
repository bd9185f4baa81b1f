/* time_spent.c - what a program's threads spend their time on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/time_spent.h"

#include <stdio.h>

void td_time_spent_ns(struct td_time_span *span, int64_t ns)
{
    atomic_fetch_add_explicit(&span->ns, ns, memory_order_relaxed);
}

int64_t td_time_spent(struct td_time_span *span, int64_t from_ns)
{
    const int64_t now = td_clock_mono_ns();

    td_time_spent_ns(span, now - from_ns);
    return now;
}

const char *td_time_spent_words(const struct td_time_span *spans, int n, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s %.2f s", i ? ", " : "", spans[i].name, (double)atomic_load(&spans[i].ns) / TD_NS_PER_S);
    return out;
}
