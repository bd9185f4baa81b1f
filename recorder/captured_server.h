/* captured_server.h - which of a capture's endpoints is the server.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_CAPTURED_SERVER_H
#define TD_RECORDER_CAPTURED_SERVER_H

#include "common/error.h"
#include "wire/capture/packet.h"

/* Read "HOST:PORT". A name stands for any address, for it may have several, and the capture has numbers.
 * TD_EINVAL: it is none, or what goes by there cannot be read. */
int td_captured_server_read(const char *server, struct td_endpoint *out, struct td_error *err);

#endif
