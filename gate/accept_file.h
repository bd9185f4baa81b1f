/* accept_file.h - the file that says which findings are accepted, by whom, why and until when.
 * SPDX-License-Identifier: Apache-2.0
 *
 * docs/ci.md describes it. It lies beside the policy: of ci/policy.json it is
 * ci/policy.accepted.json; without a policy it is tapedeck.accepted.json in the current folder. */
#ifndef TD_GATE_ACCEPT_FILE_H
#define TD_GATE_ACCEPT_FILE_H

#include <stdint.h>

#include "common/json.h"

#define TD_ACCEPT_SCHEMA "tapedeck-accepted-1"
#define TD_ACCEPT_MAX_DAYS 366
#define TD_ACCEPT_DATE 11 /* bytes of "2027-01-31" */

/* Days since 1970-01-01, UTC. TD_EINVAL: not a date that exists, as YYYY-MM-DD. */
int td_accept_parse_date(const char *text, int64_t *days, struct td_error *err);
int64_t td_accept_today(void);
void td_accept_date_text(int64_t days, char out[TD_ACCEPT_DATE]);

/* The path of the file. policy: NULL: none. TD_ELIMIT. */
int td_accept_path(const char *policy, char *out, size_t n, struct td_error *err);
/* Read and check the file; a file that is not there is an empty one. Every entry of the result has
 * all its members, of the right kinds. TD_EINVAL: it holds something else; the error names it. */
int td_accept_load(const char *path, cJSON **out, struct td_error *err);
/* today: days; an entry that lasts more than TD_ACCEPT_MAX_DAYS from then is refused. */
int td_accept_check(const cJSON *file, int64_t today, struct td_error *err);
/* Add entries, a list, to the file as it is now: another gate may have added some since it was
 * loaded. The same errors as td_accept_load(), and those of writing. */
int td_accept_extend(const char *path, const cJSON *entries, struct td_error *err);
/* Who accepts: the CI's actor, else git's user, else the user of this machine. Returns out. */
const char *td_accept_who(char *out, size_t n);

#endif
