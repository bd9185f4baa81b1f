/* child_ports.h - the TCP ports on which the processes of a group listen.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_CHILD_PORTS_H
#define TD_RECORDER_CHILD_PORTS_H

#include <stddef.h>
#include <sys/types.h>

/* Read from /proc the TCP ports on which the processes of this group listen.
 *   ports : [max], filled
 * Returns how many there are, at most max; 0 also where /proc cannot be read. */
size_t td_child_ports(pid_t group, int *ports, size_t max);

#endif
