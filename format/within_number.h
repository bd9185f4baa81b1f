/* within_number.h - are digits in a text a part of a longer number?
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FORMAT_WITHIN_NUMBER_H
#define TD_FORMAT_WITHIN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#define TD_NUMBER_LONGEST 32 /* digits and points before the digits asked for; more are no number */

enum td_within_number { TD_WITHIN_NONE, TD_WITHIN_NUMBER, TD_WITHIN_OPEN };

/* Does s[n] hold more of a number beside the digits [at, at + len): digits, a point and digits, or an exponent? What has a
 * letter, or what may begin an escape ("%20", "\u0020", "&#32;"), in front of its first digit is no number.
 *   more : s may go on; then TD_WITHIN_OPEN says that its next bytes decide */
enum td_within_number td_within_number(const char *s, size_t n, size_t at, size_t len, bool more);
/* Is that so by the bytes before `at` alone? */
bool td_within_number_by_left(const char *s, size_t at);
/* So many bytes before `at` may decide about digits that begin there. */
size_t td_within_number_before(const char *s, size_t at);

#endif
