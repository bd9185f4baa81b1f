/* child_serve.h - the main loop of replay-child, the process that runs a build.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_CHILD_CHILD_SERVE_H
#define TD_REPLAYER_CHILD_CHILD_SERVE_H

/* Serve requests (replayer/child_protocol.h) on the socket until BYE, or until the parent is gone.
 * Returns the exit code of the process. */
int td_child_serve(int sock);

#endif
