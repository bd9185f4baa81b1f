/* device_condition.h - clocks, temperature and power of a device while two builds were timed on it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_DEVICE_CONDITION_H
#define TD_REPLAYER_DEVICE_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define TD_DEVICE_CONDITION_VALUES 4      /* sm_mhz, mem_mhz, temp_c, power_mw */

/* Readings of one moment (before or after a sample), summed up over all samples. */
struct td_device_condition_sum {
    struct { int n, least, most; double sum; } value[TD_DEVICE_CONDITION_VALUES];
    int samples, throttled;        /* readings of clock reasons; those that slow it down */
    int64_t reasons;               /* bits of all reasons that were read */
};

/* One build's share. unknown: why the provider cannot read its device; "": it can, or nothing was
 * reported. */
struct td_device_condition { struct td_device_condition_sum before, after; char unknown[256]; };

/* Add one sample, as td_build_process_time() leaves it in `condition`: a line before and a line
 * after, each of five integers (TD_DEVICE_CONDITION_VALUES and the reasons; < 0: unknown), or a
 * sentence in place of the first line. */
void td_device_condition_note(struct td_device_condition *c, const char *text);
/* Both builds as docs/format.md, "device", has them. The caller owns the tree; NULL: nothing was
 * reported. */
cJSON *td_device_condition_json(const struct td_device_condition *baseline,
                                const struct td_device_condition *candidate);

#endif
