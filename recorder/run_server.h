/* run_server.h - the server that `record --run` starts, in a process group of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RUN_SERVER_H
#define TD_RECORDER_RUN_SERVER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/proc.h"
#include "recorder/server_log.h"

struct td_run_server {           /* zeroed: none */
    struct td_proc proc;
    char how[80];                /* the way it ended, "" while it runs */
    struct td_server_log log;    /* where its output goes */
    const char *url;             /* where it shall listen; borrowed */
    int64_t looked_ns;           /* when its ports were last looked at */
    char elsewhere[64];          /* "127.0.0.1:8001", where it answers instead; "" */
};

/* Start the server. Its output goes to s->log, which is open.
 *   url        : where it will listen; TD_EEXIST: something listens there already, and would be
 *                recorded instead
 *   with_tap   : put the tap into its environment; graphs_mib as for td_tap_client_env_graphs()
 *   no_tap     : filled with the reason when that is not possible: the server is started without
 *                the tap then; else "" */
int td_run_server_start(struct td_run_server *s, char **command, const char *url, bool with_tap,
                        int64_t graphs_mib, char *no_tap, size_t no_tap_size, struct td_error *err);
/* Does it run still? When it has ended, fills `how` and shows its last lines. Also true when none
 * was started. arg : a struct td_run_server */
bool td_run_server_alive(void *arg);
/* While it is waited for: the same, but false also when it answers on another port than that of
 * url, which fills `elsewhere`. Looks once a second. */
bool td_run_server_is_coming(void *arg);
/* End it, by force after 15 s, so that it can be started again. */
void td_run_server_stop(struct td_run_server *s);
/* End it, by force after 15 s. Safe when none was started. */
void td_run_server_end(struct td_run_server *s);

extern volatile sig_atomic_t td_run_server_group; /* for a signal handler: the process group to
                                                     kill, or 0 */

#endif
