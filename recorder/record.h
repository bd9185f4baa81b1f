/* record.h - one recording, from reaching the server to closing the fixture.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_RECORD_H
#define TD_RECORDER_RECORD_H

#include <signal.h>

#include "common/error.h"
#include "recorder/record_options.h"

/* Record a server. The summary and, last, the fixture's path are printed on stdout.
 *   stop : set to 1 by a signal handler: the recording ends early, and in order
 * Returns TD_OK, also when interrupted after something succeeded. TD_EINTR: interrupted before the
 * first answer; TD_EPROTO: no request succeeded; others: what failed. */
int td_record(const struct td_record_options *opt, const volatile sig_atomic_t *stop,
              struct td_error *err);

#endif
