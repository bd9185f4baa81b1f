/* kernel_counts.h - count the kernels that a server launched on its GPU, by name.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The fixture says what the tap reads of them, and what it does not. */
#ifndef TD_RECORDER_TAP_CLIENT_KERNEL_COUNTS_H
#define TD_RECORDER_TAP_CLIENT_KERNEL_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "format/fixture.h"
#include "recorder/tap/core/tap_proto.h"
#include "recorder/tap_client/tap_client_options.h"

struct client_kernel { int64_t n; bool known; char *symbol; };      /* n: launches; known: an
                                                                       adapter reads it */
struct client_kernels { struct client_kernel *all; uint32_t n; };   /* of all processes; zeroed:
                                                                       none */

/* Add the launches of one kernel. False: the record does not hold together. */
bool client_kernels_read(struct client_kernels *k, const struct tap_kernel *rec);
/* Fill gemms, gemms_other and other of *out. */
void client_kernels_state(const struct client_kernels *k, struct td_tap_client_state *out);
/* Write facts kernels (those launched most), unread_gemms and unread_most of the manifest's section
 * "tap". Sorts. */
void client_kernels_facts(struct client_kernels *k, struct td_writer *w);
void client_kernels_release(struct client_kernels *k);

#endif
