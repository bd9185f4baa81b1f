/* exchange_numbers.c - read the numbers of an exchange's line, each within its range.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/exchange_numbers.h"

#include <float.h>
#include <math.h>

#include "common/json.h"
#include "format/records.h"

#define TIME_MOST ((int64_t)1 << 61) /* two of them can be added and subtracted */

float td_logprob_of(double v)
{
    return v > TD_LOGPROB_MOST ? INFINITY : v < -(double)FLT_MAX ? -INFINITY : (float)v;
}

int td_rec_read_logprob(const cJSON *m, const char *key, float *out, struct td_error *err)
{
    const double v = td_json_num(m, NAN);
    const bool is_word = cJSON_IsString(m) && !isfinite(v);

    *out = td_logprob_of(v);
    return isnan(v) || is_word || isfinite(*out)
               ? TD_OK
               : td_fail(err, TD_ECORRUPT, "\"%s\" holds %g, which is no logprob", key, v);
}

bool td_rec_is_time(int64_t ns)
{
    return ns >= -TIME_MOST && ns <= TIME_MOST;
}

int td_rec_read_time(const cJSON *v, const char *key, int64_t *out, struct td_error *err)
{
    *out = v && !cJSON_IsNull(v) ? td_json_i64(v, INT64_MIN) : 0;
    return td_rec_is_time(*out)
               ? TD_OK
               : td_fail(err, TD_ECORRUPT, "\"%s\" is no time in ns", key);
}

int td_rec_read_usage(const cJSON *o, const char *key, int64_t *out, struct td_error *err)
{
    const cJSON *v = td_json_get(o, key);

    *out = v && !cJSON_IsNull(v) ? td_json_i64(v, INT64_MIN) : -1;
    return *out >= -1 && *out <= TIME_MOST ? TD_OK
                                              : td_fail(err, TD_ECORRUPT, "\"%s\" is no count of tokens", key);
}

int td_rec_read_id(const cJSON *m, const char *key, int32_t *out, struct td_error *err)
{
    const int64_t id = td_json_i64(m, INT64_MIN);

    *out = (int32_t)id;
    return id >= INT32_MIN && id <= INT32_MAX
               ? TD_OK
               : td_fail(err, TD_ECORRUPT, "\"%s\" holds an id that is no 32-bit integer", key);
}
