/* summary.h - print what was replayed and how it went, as a table on stdout.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_SUMMARY_H
#define TD_REPLAYER_SUMMARY_H

#include "replayer/fixture_replay.h"

/* Print the table. The last line is the path of the fixture that was written. */
void td_summary_print(const struct td_replay_options *opt,
                      const struct td_fixture_replay_result *res);

#endif
