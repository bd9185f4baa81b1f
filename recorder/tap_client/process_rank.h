/* process_rank.h - which rank of a tensor-parallel server a process is.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_TAP_CLIENT_PROCESS_RANK_H
#define TD_RECORDER_TAP_CLIENT_PROCESS_RANK_H

#include <stddef.h>
#include <sys/types.h>

/* Read the rank of a process; -1: it has none, or does not tell.
 *   pid   : in our own namespace, not a container's; 0: not known
 *   title : filled with the title that the process gave itself, "VLLM::Worker_TP1"; "" without
 *           one */
int client_process_rank(pid_t pid, char *title, size_t title_bytes);

#endif
