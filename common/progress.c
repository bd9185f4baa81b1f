/* progress.c - one line on a terminal.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"

void td_progress_start(struct td_progress *p, const char *what, int64_t total)
{
    *p = (struct td_progress){.what = what, .total = total, .start_ns = td_clock_mono_ns(), .on = isatty(STDERR_FILENO)};
    td_progress_at(p, 0, NULL);
}

void td_progress_at(struct td_progress *p, int64_t done, const char *note)
{
    int64_t now = td_clock_mono_ns();

    if (!p->on || (now - p->last_ns < 100 * TD_NS_PER_MS && done < p->total))
        return;
    p->last_ns = now;
    if (p->total > 0)
        fprintf(stderr, "\r\033[K%s  %lld/%lld", p->what, (long long)done, (long long)p->total);
    else
        fprintf(stderr, "\r\033[K%s  %lld", p->what, (long long)done);
    fprintf(stderr, "  %.0f s%s%s", (double)(now - p->start_ns) / 1e9, note ? "  " : "", note ? note : "");
    fflush(stderr);
}

void td_progress_done(struct td_progress *p)
{
    if (p->on) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->on = false;
}
