/* redact_needles.h - many short texts that are looked for at once, each in any spelling.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Needles lie sorted, by their first character: at a place of a text, each further character of it
 * narrows down which of them may stand there. So the search takes about as long for ten thousand as for
 * ten. Not thread-safe. */
#ifndef TD_FORMAT_REDACT_NEEDLES_H
#define TD_FORMAT_REDACT_NEEDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define TD_REDACT_NEEDLE_LEAST 8     /* bytes or characters of a needle, at least */

struct td_redact_needle { uint8_t *c; size_t n; bool alone; };
/* Sorted by memcmp(), a needle before those that it begins. */
struct td_redact_row { struct td_redact_needle *needle; size_t n, cap; };

struct td_redact_needles {        /* zeroed, but for the maxima: there are none */
    size_t most, most_bytes;      /* maxima of the two below */
    size_t n, n_bytes;
    bool any_alone;
    /* by the first byte: characters of td_spelled(), where OTHER stands for a run; bytes, as they are */
    struct td_redact_row spelled[256], bytes[256];
    uint8_t pair[2][256][32];     /* bit b of [i][a]: in some needle, in some spelling, a and b may be the bytes i and i + 1 */
};

enum td_redact_needle_kind {
    TD_NEEDLE_SPELLED,
    TD_NEEDLE_ALONE,  /* of digits alone: where these are a part of a longer number (within_number.h), they stay */
    TD_NEEDLE_BYTES   /* to be found as it is, and not in another spelling */
};

/* Add a needle, unless it is there.
 *   c : [n], taken, also where this fails
 * TD_ELIMIT: a maximum is met; TD_ENOMEM. */
int td_redact_needles_add(struct td_redact_needles *v, uint8_t *c, size_t n, enum td_redact_needle_kind kind, struct td_error *err);
void td_redact_needles_release(struct td_redact_needles *v);
/* Overwrite every needle in s[n], and what has the first 128 characters of one, as far as it goes on like it.
 *   cut     : what has begun where s ends is a needle
 *   decided : where to stop before what has begun; NULL: go on
 * Returns the bytes overwritten. */
int64_t td_redact_needles_hide(const struct td_redact_needles *v, char *s, size_t n, bool cut, size_t *decided);

#endif
