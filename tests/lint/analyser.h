/* analyser.h - what an analyser must know that sees one file at a time; included before each file that it reads.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_LINT_ANALYSER_H
#define TD_TESTS_LINT_ANALYSER_H

#include <cjson/cJSON.h>

#include "common/error.h"

/* The result of td_fail is its code, which is never 0: what follows `if (!rc)` is not reached. */
#define td_fail(err, code, ...) (td_fail(err, code, __VA_ARGS__), (code))

/* cppcheck reads no header of a library. */
#ifndef cJSON_ArrayForEach
#define cJSON_ArrayForEach(element, array) for (element = (array)->child; element; element = (element)->next)
#endif

#endif
