/* progress.c - one line on a terminal, a line every 30 s in a log.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

#define REDRAW_NS (100 * TD_NS_PER_MS)
#define ESTIMATE_AFTER_NS (2 * TD_NS_PER_S) /* an earlier estimate would jump */

const char *td_progress_duration(int64_t seconds, char out[32])
{
    const long long s = seconds > 0 ? seconds : 0;

    if (s < 100)
        snprintf(out, 32, "%lld s", s);
    else if (s < 600)
        snprintf(out, 32, "%lld min %lld s", s / 60, s % 60);
    else if (s < 6000)
        snprintf(out, 32, "%lld min", (s + 30) / 60);
    else
        snprintf(out, 32, "%lld h %lld min", s / 3600, s % 3600 / 60);
    return out;
}

/* Nanoseconds that the rest takes if it goes on as it has so far; -1: not known. */
static int64_t time_left(const struct td_progress *p, int64_t done, int64_t elapsed_ns)
{
    if (p->total <= 0 || done <= 0 || done >= p->total || elapsed_ns < ESTIMATE_AFTER_NS)
        return -1;
    return (int64_t)((double)elapsed_ns / (double)done * (double)(p->total - done));
}

const char *td_progress_text(const struct td_progress *p, int64_t done, int64_t now_ns,
                             const char *note, char out[TD_PROGRESS_TEXT])
{
    const int64_t elapsed_ns = now_ns - p->start_ns, left_ns = time_left(p, done, elapsed_ns);
    char count[64] = "", left[64] = "", time[32];

    if (p->total > 0)
        snprintf(count, sizeof count, "%lld/%lld  %lld %%  ", (long long)done, (long long)p->total,
                 (long long)(100.0 * (double)done / (double)p->total));
    else if (done > 0)
        snprintf(count, sizeof count, "%lld  ", (long long)done);
    if (left_ns >= 0)
        snprintf(left, sizeof left, "  about %s left",
                 td_progress_duration((left_ns + TD_NS_PER_S - 1) / TD_NS_PER_S, time));
    snprintf(out, TD_PROGRESS_TEXT, "%s  %s%s%s%s%.200s", p->what, count,
             td_progress_duration(elapsed_ns / TD_NS_PER_S, time), left, note ? "  " : "",
             note ? note : "");
    return out;
}

void td_progress_start(struct td_progress *p, const char *what, int64_t total)
{
    const int64_t now = td_clock_mono_ns();
    const bool terminal = isatty(STDERR_FILENO);

    *p = (struct td_progress){.what = what,
                              .total = total,
                              .start_ns = now,
                              .last_ns = terminal ? 0 : now,
                              .every_ns = terminal ? REDRAW_NS : TD_PROGRESS_LOG_S * TD_NS_PER_S,
                              .on = !td_log_quiet(),
                              .terminal = terminal};
    td_progress_at(p, 0, NULL);
}

/* Draw the line of the terminal anew. What does not fit into its width would stay there. */
static void draw(const char *text)
{
    int columns = td_log_columns(STDERR_FILENO), n = (int)strlen(text);

    if (columns > 1 && n > columns - 1)
        n = columns - 1;
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) /* not within a character of UTF-8 */
        n--;
    td_log_line_wipe();
    fprintf(stderr, "%.*s", n, text);
    fflush(stderr);
    td_log_line_shown();
}

static void print_now(struct td_progress *p, int64_t now, const char *note)
{
    char text[TD_PROGRESS_TEXT];

    td_progress_text(p, p->done, now, note, text);
    p->last_ns = now;
    if (p->terminal) {
        draw(text);
        return;
    }
    td_log_note("%s", text);
    p->printed = true;
}

void td_progress_at(struct td_progress *p, int64_t done, const char *note)
{
    int64_t now = td_clock_mono_ns();
    bool due = now - p->last_ns >= p->every_ns;

    p->done = done;
    if (p->on && (due || (p->terminal && p->total > 0 && done >= p->total)))
        print_now(p, now, note);
}

void td_progress_done(struct td_progress *p)
{
    if (p->on && p->terminal)
        td_log_line_wipe();
    else if (p->on && p->printed) /* who read "half done" also reads how it ended */
        print_now(p, td_clock_mono_ns(), "done");
    p->on = false;
}
