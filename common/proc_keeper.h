/* proc_keeper.h - a small process between us and a child, which ends the child's whole family.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A server starts workers, some in sessions of their own. A signal to the server, or its process
 * group, does not reach them, and one that the system sends when a parent dies reaches the server
 * alone. The keeper is the child's parent, and takes over what the family leaves behind
 * (PR_SET_CHILD_SUBREAPER). It ends all of them when the child has ended, or when we have, however
 * that came. */
#ifndef TD_COMMON_PROC_KEEPER_H
#define TD_COMMON_PROC_KEEPER_H

#include <sys/types.h>

/* Called in the keeper, a fork of a program that may have threads: only async-signal-safe calls
 * are made. Closes all descriptors but `life`, waits until `child` ends or the other end of the pipe
 * `life` is closed, ends all descendants, and ends as the child ended. Does not return.
 *   grace_ms : between SIGTERM and SIGKILL, when we are gone */
void td_proc_keep(pid_t child, int life, int grace_ms) __attribute__((noreturn));
/* Become the parent of what the family leaves behind. Before the child is forked. */
void td_proc_keeper_begin(void);

#endif
