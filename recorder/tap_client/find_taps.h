/* find_taps.h - from a port or a process to the sockets of its taps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_FIND_TAPS_H
#define TD_RECORDER_TAP_CLIENT_FIND_TAPS_H

#include <stddef.h>
#include <sys/un.h>

#include "common/error.h"
#include "recorder/tap_client/tap_client_options.h"

#define CLIENT_MAX_TAPS 64                /* processes of one server */
#define CLIENT_SOCKET_PATH sizeof(((struct sockaddr_un *)0)->sun_path)

struct client_found { pid_t pid; char socket[CLIENT_SOCKET_PATH]; }; /* pid: in our own namespace;
                                                                        0: not known */

/* Processes of the target with a tap that are not in the list. */
struct client_missed {
    int left_out;                     /* there was no room for them */
    int deaf;                         /* their taps run, and have no socket */
    pid_t first_deaf;
};

/* Find the sockets of the target's processes. TD_ENOTFOUND: there is none; the sentence says why,
 * and how to get one. A tap without a socket is waited for, as long as the target says. */
int client_find_taps(const struct td_tap_client_target *t, struct client_found out[CLIENT_MAX_TAPS],
                     int *n, struct client_missed *missed, struct td_error *err);

/* The folder for the sockets of a server that is about to start; made if need be. */
int client_socket_dir(char *out, size_t n, struct td_error *err);

#endif
