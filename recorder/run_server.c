/* run_server.c - the server that `record --run` starts, in a process group of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/run_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "recorder/child_ports.h"
#include "recorder/tap_client/server_env.h"
#include "wire/fetch.h"

#define GRACE_MS 15000
#define MAX_PORTS 64

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
                                .stdout_fd = s->log.fd >= 0 ? s->log.fd : STDERR_FILENO,
                                .stderr_fd = s->log.fd,
                                .own_group = true,
                                .ends_with_family = true};
    struct td_error why = {0};
    bool is_first;
    int rc = check_free(url, err);

    if (rc)
        return rc;
    no_tap[0] = '\0';
    if (with_tap && (td_tap_client_env_make(command[0], &env, &why) ||
                     td_tap_client_env_graphs(&env, graphs_mib, &why)))
        snprintf(no_tap, no_tap_size, "%s", why.msg);
    else if (with_tap)
        o.extra_env = env.vars;
    is_first = !s->url;
    s->url = url;
    rc = td_proc_start(&s->proc, &o, err);
    td_run_server_group = rc ? 0 : (sig_atomic_t)s->proc.pid;
    if (!rc && is_first && *s->log.path)
        td_log_note("the server's output goes to %s", s->log.path);
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
    td_server_log_show(&s->log);
    return false;
}

/* The port of "http://host:8000/prefix"; 0: it names none. */
static int port_of(const char *url)
{
    const char *host = strstr(url, "://"), *colon, *end;

    host = host ? host + 3 : url;
    end = host + strcspn(host, "/");
    colon = memrchr(host, ':', (size_t)(end - host));
    return colon ? atoi(colon + 1) : 0;
}

/* Does an LLM server answer at this port, be it that its model still loads? Servers also listen on
 * ports of their own use (metrics, other processes), which answer otherwise. */
static bool is_llm_server(int port)
{
    struct td_http_reply reply = TD_HTTP_REPLY_INIT;
    char url[64];
    cJSON *json = NULL;
    bool is;

    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/models", port);
    if (!td_http_fetch(url, NULL, NULL, 0, 1000, &reply, NULL))
        json = td_json_parse(td_buf_str(&reply.body), reply.body.len, NULL);
    is = (reply.status == 200 && td_json_get(json, "data")) ||
         ((reply.status == 503 || reply.status == 401) &&
          td_json_get(json, "error"));
    cJSON_Delete(json);
    td_buf_release(&reply.body);
    return is;
}

bool td_run_server_is_coming(void *arg)
{
    struct td_run_server *s = arg;
    const int64_t now = td_clock_mono_ns();
    int ports[MAX_PORTS], wanted;
    size_t n, i;

    if (!td_run_server_alive(s))
        return false;
    if (s->proc.pid <= 0 || now - s->looked_ns < TD_NS_PER_S)
        return true;
    s->looked_ns = now;
    wanted = port_of(s->url);
    n = td_child_ports(s->proc.pid, ports, MAX_PORTS);
    for (i = 0; i < n && wanted; i++)
        if (ports[i] == wanted)
            return true;
    for (i = 0; i < n && wanted; i++)
        if (is_llm_server(ports[i])) {
            snprintf(s->elsewhere, sizeof s->elsewhere, "127.0.0.1:%d", ports[i]);
            return false;
        }
    return true;
}

void td_run_server_stop(struct td_run_server *s)
{
    td_proc_end(&s->proc, GRACE_MS);
    td_run_server_group = 0;
    s->how[0] = '\0';
}

void td_run_server_end(struct td_run_server *s)
{
    td_run_server_stop(s);
    td_server_log_close(&s->log);
}
