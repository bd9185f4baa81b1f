/* exchange_numbers.h - read the numbers of an exchange's line, each within its range.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A number that td_exchange_write() cannot have written is damage, not evidence: TD_ECORRUPT, with the
 * name of the member. v: the value, NULL where the member is absent. */
#ifndef TD_FORMAT_EXCHANGE_NUMBERS_H
#define TD_FORMAT_EXCHANGE_NUMBERS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* A logprob. null and the words "NaN", "Infinity", "-Infinity" are what a server said. */
int td_rec_read_logprob(const cJSON *v, const char *key, float *out, struct td_error *err);
/* Is that a time in ns that can be added and subtracted? */
bool td_rec_is_time(int64_t ns);
/* A time in ns; absent or null: 0. */
int td_rec_read_time(const cJSON *v, const char *key, int64_t *out, struct td_error *err);
/* The member `key` of o, a count of tokens; absent or null: -1. */
int td_rec_read_usage(const cJSON *o, const char *key, int64_t *out, struct td_error *err);
/* The id of a token; -1 stands for one that is not known. */
int td_rec_read_id(const cJSON *v, const char *key, int32_t *out, struct td_error *err);

#endif
