/* server_log.h - where the output of the server goes that `record --run` starts: a file of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Not into the fixture: a server may write prompts into its log, and nothing redacts them there.
 * Secrets are overwritten in what is shown of it (docs/security.md). */
#ifndef TD_RECORDER_SERVER_LOG_H
#define TD_RECORDER_SERVER_LOG_H

#include <stdbool.h>

#include "common/error.h"
#include "common/fs.h"

struct td_server_log {
    char path[TD_PATH_MAX]; /* "": no file, the output goes to stderr */
    int fd;                 /* for the child's stdout and stderr; -1: none. The child writes on
                               after this end is closed. */
    bool by_default;        /* we chose the path: it is removed again when it stays empty */
    bool shown;             /* its last lines were */
    bool no_text;           /* name the file, and show nothing of it. Set after opening, as is: */
    const char *const *headers; /* that are sent, NULL-terminated or NULL: secrets that it may hold */
};

/* Make the file.
 *   asked : --server-log: a path; "-" for stderr; NULL for OUT.server.log beside the fixture
 *   out   : the fixture's path, or NULL while it has none: fixtures/server-TIME.log */
int td_server_log_open(struct td_server_log *l, const char *asked, const char *out,
                       struct td_error *err);
/* Show the last lines of what the server wrote, once: it has died, or never answered. */
void td_server_log_show(struct td_server_log *l);
void td_server_log_close(struct td_server_log *l); /* safe on a zeroed one */

#endif
