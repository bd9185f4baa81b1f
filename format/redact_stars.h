/* redact_stars.h - overwrite bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_REDACT_STARS_H
#define TD_FORMAT_REDACT_STARS_H

#include <stddef.h>
#include <stdint.h>

/* Overwrite n bytes but line ends. Returns how many changed. */
int64_t td_redact_stars(char *s, size_t n);

#endif
