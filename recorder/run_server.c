/* run_server.c - the server that `record --run` starts, in a process group of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/run_server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "recorder/tap_client/server_env.h"
#include "wire/client.h"

#define GRACE_MS 15000

volatile sig_atomic_t td_run_server_group;

/* A server that listens at url already would be recorded instead of the one that is about to
 * start. */
static int check_free(const char *url, struct td_error *err)
{
    struct td_http_reply reply = TD_HTTP_REPLY_INIT;
    int rc = td_http_fetch(url, NULL, NULL, 0, 1000, &reply, NULL);

    td_buf_release(&reply.body);
    return rc == TD_OK || rc == TD_ETIMEOUT
               ? td_fail(err, TD_EEXIST,
                         "something listens at %s already, and would be recorded instead "
                         "of what --run starts; end it, or choose another port",
                         url)
               : TD_OK;
}

int td_run_server_start(struct td_run_server *s, char **command, const char *url, bool with_tap,
                        int64_t graphs_mib, char *no_tap, size_t no_tap_size, struct td_error *err)
{
    struct td_tap_client_env env = {{NULL}};
    struct td_proc_options o = {.argv = command,
                                .stdin_fd = -1,
                                .stdout_fd = STDERR_FILENO,
                                .stderr_fd = -1,
                                .own_group = true};
    struct td_error why = {0};
    int rc = check_free(url, err);

    if (rc)
        return rc;
    no_tap[0] = '\0';
    if (with_tap && (td_tap_client_env_make(command[0], &env, &why) ||
                     td_tap_client_env_graphs(&env, graphs_mib, &why)))
        snprintf(no_tap, no_tap_size, "%s", why.msg);
    else if (with_tap)
        o.extra_env = env.vars;
    rc = td_proc_start(&s->proc, &o, err);
    td_run_server_group = rc ? 0 : (sig_atomic_t)s->proc.pid;
    td_tap_client_env_release(&env);
    return rc;
}

bool td_run_server_alive(void *arg)
{
    struct td_run_server *s = arg;

    if (s->proc.pid <= 0)
        return !*s->how;
    if (td_proc_wait(&s->proc, 0, NULL) == TD_ETIMEOUT)
        return true;
    td_proc_describe(s->proc.status, s->how, sizeof s->how);
    return false;
}

void td_run_server_end(struct td_run_server *s)
{
    td_proc_end(&s->proc, GRACE_MS);
    td_run_server_group = 0;
}
