/* progress.h - show how far long work has come, on stderr.
 * SPDX-License-Identifier: Apache-2.0
 *
 * On a terminal: one line that is drawn anew, with the time left. In a log (a pipe, a file): a line
 * of its own every 30 s, none for work that ends sooner. With --quiet: nothing. */
#ifndef TD_COMMON_PROGRESS_H
#define TD_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_PROGRESS_LOG_S 30
#define TD_PROGRESS_TEXT 400      /* bytes that td_progress_text() fills at most */

struct td_progress {
    const char *what;             /* "ops"; borrowed until done */
    int64_t total;                /* of things to do; 0: not known */
    int64_t start_ns, last_ns;    /* when the work began; when something was last printed */
    int64_t every_ns;             /* time between two prints */
    int64_t done;                 /* as td_progress_at() last said */
    bool on, terminal;
    bool printed;                 /* a log has a line of it */
};

void td_progress_start(struct td_progress *p, const char *what, int64_t total);
/* Call it as often as is convenient, also when `done` stands still: it prints when it is time.
 * note: a few words ("both builds, judged"), or NULL. */
void td_progress_at(struct td_progress *p, int64_t done, const char *note);
void td_progress_done(struct td_progress *p); /* wipes the line; safe on a zeroed p, and twice */

/* The text: "ops  120/1064  11 %  30 s  about 4 min left  both builds, judged". Returns out. */
const char *td_progress_text(const struct td_progress *p, int64_t done, int64_t now_ns,
                             const char *note, char out[TD_PROGRESS_TEXT]);
/* "45 s", "3 min 20 s", "2 h 5 min". Returns out. */
const char *td_progress_duration(int64_t seconds, char out[32]);

#endif
