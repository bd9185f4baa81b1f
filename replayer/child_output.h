/* child_output.h - what a build's process writes to stdout and stderr: read as it comes, each line logged once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A build that gives up says why on stderr, and may do so for every op. So its process writes into a
 * pipe. A line that is new is logged; the last message is kept for the report. */
#ifndef TD_REPLAYER_CHILD_OUTPUT_H
#define TD_REPLAYER_CHILD_OUTPUT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_CHILD_LINE 256      /* bytes kept of a line */
#define TD_CHILD_MORE 8192     /* bytes behind them that are read, so that no part of a key is kept */
#define TD_CHILD_KEY 8         /* bytes of a word, with a digit, that may be the first half of a key */
#define TD_CHILD_LINES_SHOWN 20 /* different lines logged as warnings; further ones only with TD_LOG=replay:2 */

struct td_child_output {
    const char *name;          /* "candidate", "baseline"; borrowed */
    int fd;                    /* read end of the pipe; -1: none */
    char line[TD_CHILD_LINE + TD_CHILD_MORE]; size_t len; /* not ended yet */
    char message[TD_CHILD_LINE];          /* see td_child_output_message() */
    bool in_word;              /* what comes is the rest of a word whose beginning was shown */
    bool is_assertion;         /* the message is one */
    uint64_t seen[TD_CHILD_LINES_SHOWN]; int n_seen; /* hashes of the lines shown */
};

/* Begin with no pipe. */
void td_child_output_init(struct td_child_output *o, const char *name);
/* Make a pipe for a new process, in place of the one before. *write_end is the process's; the caller
 * closes it once the process runs. */
int td_child_output_open(struct td_child_output *o, int *write_end, struct td_error *err);
void td_child_output_close(struct td_child_output *o);

/* Wait until something can be read from sock, and read the process's output meanwhile.
 *   timeout_ms : < 0: for ever
 *   stop       : when it is set the wait is over; NULL: never
 * TD_OK; TD_ETIMEOUT; TD_EINTR: *stop; TD_EIO. */
int td_child_output_wait(struct td_child_output *o, int sock, int timeout_ms, const volatile sig_atomic_t *stop,
                         struct td_error *err);
/* Read what is there now. */
void td_child_output_drain(struct td_child_output *o);
/* Drain, and forget the message: what comes next belongs to another op. */
void td_child_output_forget(struct td_child_output *o);

/* What the process said last: a failed assertion if there was one, else the last line. "": nothing
 * since td_child_output_forget(). Valid until the next call. */
const char *td_child_output_message(struct td_child_output *o);

#endif
