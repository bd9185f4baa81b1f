/* records_json.h - what exchange.c, step.c and op.c share: arrays of numbers, enum names, members that no field holds.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_RECORDS_JSON_H
#define TD_FORMAT_RECORDS_JSON_H

#include <cjson/cJSON.h>

#include "common/json.h"

#define TD_REC_MAX_TOKENS (1 << 24)   /* token ids, logprobs, events of an exchange; spans of a step */
#define TD_REC_MAX_TOP 1024           /* alternatives per token */
/* Of an op's record. A fixture may hold more than a program takes (common/desc/op_desc.h), which refuses the op then. */
#define TD_REC_MAX_TENSORS 64         /* inputs of an op */
#define TD_REC_MAX_LAUNCHES 4096

/* A copy of the members of obj whose names are not in `known` (NULL-terminated), or NULL when there are none. */
cJSON *td_rec_extra(const cJSON *obj, const char *const *known);
/* Write every member of extra except those named in skip (may be NULL). */
void td_rec_put_extra(struct td_jw *w, const cJSON *extra, const char *const *skip);
char *td_rec_dup(const cJSON *obj, const char *key);              /* string or NULL; NULs stay coded (common/json.h) */
void td_rec_put_str(struct td_jw *w, const char *key, const char *s); /* nothing when NULL; C0 80 goes out as \u0000 */
void td_rec_put_float(struct td_jw *w, const char *key, float v);  /* shortest that reads back as the same float */
/* Length of the array obj[key]; 0 when missing or null; TD_ECORRUPT when it is no array, TD_ELIMIT over max. */
int64_t td_rec_count(const cJSON *obj, const char *key, int64_t max, struct td_error *err);
/* obj[key] as a new array of int32. *out NULL when missing. */
int td_rec_ints(const cJSON *obj, const char *key, int32_t **out, int32_t *n, struct td_error *err);
int td_rec_name(const char *const *names, int n, const char *s, int missing);

#endif
