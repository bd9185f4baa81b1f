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
#include "recorder/tap_client/name_index.h"
#include "recorder/tap_client/tap_client_options.h"

struct client_kernel { int64_t n; bool known; char *symbol; };      /* n: launches; known: an
                                                                       adapter reads it */
/* Of all processes; zeroed: none. nameless: launches of kernels beyond CLIENT_KERNELS_MAX, counted
 * without a name. */
struct client_kernels {
    struct client_kernel *all; uint32_t n; int64_t nameless;
    struct client_index index;        /* of `all`, by symbol and known; gone once that is sorted */
};

#define CLIENT_KERNELS_MAX 16384u     /* names; a server has some hundreds */

/* Add the launches of one kernel. False: the record does not hold together. */
bool client_kernels_read(struct client_kernels *k, const struct tap_kernel *rec);
/* Fill gemms, gemms_other and other of *out. */
void client_kernels_state(const struct client_kernels *k, struct td_tap_client_state *out);
/* Write facts kernels (those launched most), kernels_left_out (launches of others, if there are
 * any), unread_gemms and unread_most of the manifest's section "tap". Sorts. */
void client_kernels_facts(struct client_kernels *k, struct td_writer *w);
void client_kernels_release(struct client_kernels *k);

#endif
