/* redact_fact.h - overwrite what a fact of the manifest must not show.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_FACT_H
#define TD_FORMAT_REDACT_FACT_H

#include <cjson/cJSON.h>

#include "format/redact_values.h"

/* Redact a fact: the values of members whose name is a secret's, with all below them; command lines; keys
 * and passwords in texts and names; the values of secret headers. Without text also what a server says:
 * only what harmless.def lists is kept of it.
 *   fact : taken; what is returned is the caller's (NULL: no memory) */
cJSON *td_redact_fact(const struct td_redact_values *values, bool no_text, const char *section, const char *key, cJSON *fact);

#endif
