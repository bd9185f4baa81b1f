/* pairs.h - which baseline belongs to which candidate: two fixtures, or two folders of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DIFFER_PAIRS_H
#define TD_DIFFER_PAIRS_H

#include <stddef.h>

#include "common/error.h"

struct td_pair {
    char *base, *candidate; /* one is NULL when nothing belongs to the other */
    struct td_error why;    /* its code is 0: the two belong together */
};
struct td_pairs { struct td_pair *pair; size_t n; };

/* Two fixtures are a pair as they are. Of a folder of fixtures, each is paired with the replay whose
 * manifest names it as its origin (replay.of). What has no partner, several, or cannot be read is a
 * pair with the reason. TD_ELIMIT, TD_EIO, TD_ENOMEM: no list could be made. */
int td_pairs_find(const char *base, const char *candidate, struct td_pairs *out,
                  struct td_error *err);
void td_pairs_release(struct td_pairs *p);

#endif
