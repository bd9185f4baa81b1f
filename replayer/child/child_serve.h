/* child_serve.h - the process that runs a build: opens a provider and runs what the replayer asks for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_CHILD_CHILD_SERVE_H
#define TD_REPLAYER_CHILD_CHILD_SERVE_H

/* `replay-child --child FD`: serve requests on the socket FD until BYE or until the parent is gone. Returns the exit code. */
int td_child_serve(int sock);

#endif
