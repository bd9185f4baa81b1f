/* device_condition.h - what a device was like while two builds were timed on it: clocks, temperature, power, and what held the clocks down.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_DEVICE_CONDITION_H
#define TD_REPLAYER_DEVICE_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define TD_DEVICE_CONDITION_VALUES 4      /* sm_mhz, mem_mhz, temp_c, power_mw */

struct td_device_condition_sum {
    struct { int n, least, most; double sum; } value[TD_DEVICE_CONDITION_VALUES];
    int samples, throttled;        /* readings with reasons; those of them where one holds the clocks down */
    int64_t reasons;               /* all that were seen */
};

struct td_device_condition { struct td_device_condition_sum before, after; char unknown[256]; };

/* Add what td_build_process_time() left in build_process.h's `condition`: two lines, of five integers each or a sentence. What is neither is left out. */
void td_device_condition_note(struct td_device_condition *c, const char *text);
/* docs/format.md, "device"; NULL: nothing was said. The caller owns it. */
cJSON *td_device_condition_json(const struct td_device_condition *baseline,
                                const struct td_device_condition *candidate);

#endif
