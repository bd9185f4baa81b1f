/* tap_socket.h - the tap's socket: where it lies, who may connect, one message in or out.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For the tap's own thread, unless said otherwise. */
#ifndef TD_RECORDER_TAP_CORE_TAP_SOCKET_H
#define TD_RECORDER_TAP_CORE_TAP_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* A descriptor and the inode it had: a server may close descriptors that it does not know, and get
 * the number again for something else. {.fd = -1}: none. */
struct tap_own_fd { int fd; ino_t ino; };

struct tap_own_fd tap_own_fd(int fd);
bool tap_own_fd_is_ours(struct tap_own_fd f);  /* it is still the socket that it was */
/* if it is ours; *f is none then. Also in the child of a fork */
void tap_own_fd_close(struct tap_own_fd *f);

/* Listen at "tap-<pid>.sock" in a folder of mode 0700. False: not possible. The file is removed
 * when the process ends. */
bool tap_socket_listen(struct tap_own_fd *listener);
/* In the child of a fork: the file is the parent's. */
void tap_socket_forget(void);
/* The peer runs as our user, or as root. */
bool tap_socket_is_welcome(int fd);
/* The process at the other end, by its number in our namespace. 0: not known. */
pid_t tap_socket_peer_pid(int fd);
/* The other end is closed, though words of it may be left to read. */
bool tap_socket_hung_up(int fd);

/* Send one message. A peer that is gone or does not read is not waited for; its link is shut, since
 * it would wait for the reply. */
void tap_socket_send(int fd, const struct tap_msg *m);
/* Read one message and the descriptor that came with it: *passed is -1 or the caller's to close.
 * m[] must be zeroed. Returns bytes read; 0: the peer is gone; -1: nothing there yet. */
ssize_t tap_socket_receive(int fd, struct tap_msg *m, int *passed);

#pragma GCC visibility pop
#endif
