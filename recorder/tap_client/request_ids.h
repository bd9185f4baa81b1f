/* request_ids.h - name each request so that the tap's steps can be joined with the exchanges.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every request carries the header "X-Request-Id: td-<nonce>-<stream>". A server that uses this id
 * for the rows of its steps, also as a part of a longer one ("cmpl-td-<nonce>-7-0"), thereby names
 * the exchange of each row. */
#ifndef TD_RECORDER_TAP_CLIENT_REQUEST_IDS_H
#define TD_RECORDER_TAP_CLIENT_REQUEST_IDS_H

#include <stdint.h>

#define TD_TAP_CLIENT_NONCE 17       /* bytes: 16 hexadecimal digits and the NUL */
#define TD_TAP_CLIENT_ID 48

/* Make a random nonce, one per recording: ids of other recordings are not mistaken for ours. */
void td_tap_client_nonce(char out[TD_TAP_CLIENT_NONCE]);
void td_tap_client_request_id(const char *nonce, uint32_t stream, char out[TD_TAP_CLIENT_ID]);
/* The stream whose id stands anywhere in `id`; -1: none of this nonce does. */
int64_t td_tap_client_request_stream(const char *nonce, const char *id);

#endif
