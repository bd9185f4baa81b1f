/* record.h - one recording, from reaching the server to closing the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORD_H
#define TD_RECORDER_RECORD_H

#include <signal.h>

#include "common/error.h"
#include "recorder/record_options.h"

/* Record a server. The summary and, last, the fixture's path are printed on stdout, where there is
 * an answer.
 *   stop : set by a signal handler to other than 0: the recording ends early, and in order
 * Returns TD_OK: all that was planned is recorded, or its failures are allowed. TD_EINTR:
 * interrupted; TD_EPROTO: no request succeeded, or the recording is incomplete; others: what
 * failed. The fixture says in its manifest what it lacks. */
int td_record(const struct td_record_options *opt, const volatile sig_atomic_t *stop,
              struct td_error *err);

#endif
