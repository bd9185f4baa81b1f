/* dry_run.h - say what would be sent and recorded, and how large it becomes, without recording.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RECORDER_DRY_RUN_H
#define TD_RECORDER_DRY_RUN_H

#include "recorder/record_options.h"

/* Print the plan on stdout. The server is asked for its model, once and briefly, unless it would be
 * started by --run; nothing else is sent, and nothing is written. TD_OK, also when nothing listens
 * there; else what is wrong with the options. */
int td_dry_run(const struct td_record_options *o, struct td_error *err);

#endif
