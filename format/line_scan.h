/* line_scan.h - read numbers and strings of a JSON line in place, as the writers of this folder spell them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A line has hundreds of numbers; a tree of them costs ten times as much as the numbers. What is spelt in another way is
 * not read here: each function then returns NULL, and the caller has json.h read the line. What is read is what json.h
 * reads out of the same bytes.
 *   p : in a text that ends with a NUL, or holds a line feed behind what is read
 * Each function returns the place behind what it read. */
#ifndef TD_FORMAT_LINE_SCAN_H
#define TD_FORMAT_LINE_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/* An integer of up to 18 digits, or a string of these. */
const char *td_scan_i64(const char *p, int64_t *out);
const char *td_scan_i32(const char *p, int32_t *out); /* no string */
/* A number that is a logprob (records.h), null, or one of the words of json.h in a string. */
const char *td_scan_logprob(const char *p, float *out);
/* The bytes of a string of valid UTF-8, where \u0000 is a NUL, to `out`, which has room for them: they are no more than the
 * string takes in the line.
 *   len : set; no NUL is added */
const char *td_scan_string(const char *p, char *out, size_t *len);
/* Pass over a value whatever it is, to the comma or bracket behind it, before `end`. It is not checked. */
const char *td_scan_skip(const char *p, const char *end);

#endif
