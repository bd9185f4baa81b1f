/* server_images.h - store the GPU code that the server ran (docs/kernels.md).
 * SPDX-License-Identifier: Apache-2.0
 *
 * A build that is gone can still be run. */
#ifndef TD_RECORDER_TAP_CLIENT_SERVER_IMAGES_H
#define TD_RECORDER_TAP_CLIENT_SERVER_IMAGES_H

#include "recorder/tap_client/client_state.h"

/* Store the containers that hold a recorded kernel as blobs, and write fact "images" of the
 * manifest's section "tap", or "images_missing" with the reason. At the end of a recording, while
 * the connections and the kernels' names are there. */
void client_images_store(struct td_tap_client *c);

#endif
