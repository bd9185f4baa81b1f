/* answer_sglang.h - read what SGLang's own /generate answers.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_ANSWER_SGLANG_H
#define TD_WIRE_ANSWER_SGLANG_H

#include <cjson/cJSON.h>

#include "wire/answer_state.h"

/* Read an event of SGLang's /generate, {"text", "output_ids", "meta_info"}. */
void td_answer_read_sglang(struct td_answer *a, const cJSON *ev, int64_t t_ns);

#endif
