/* turns.h - two processes that take turns: while one works, the other waits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each tells the other by single bytes through pipes: here I am, your turn, I am done. A partner that is done, or that died (its
 * pipe ends), leaves all turns to us. */
#ifndef TD_COMMON_TURNS_H
#define TD_COMMON_TURNS_H

#include <signal.h>
#include <stdbool.h>

#include "common/error.h"

struct td_turns {
    int from, to;                 /* pipes of the partner */
    bool ours, alone;             /* it is our turn; the partner takes none any more */
    const volatile sig_atomic_t *stop; /* ends all waiting; or NULL */
    void (*changed)(void *arg, bool ours); void *arg; /* told when we have the turn, and before we give it away; or NULL */
};

/* Make both ends, before a fork(). The first of them begins. TD_EIO: no pipes. */
int td_turns_make(struct td_turns pair[2], struct td_error *err);
/* Close an end: that of the partner, after the fork(); ours, for the partner to find us gone. An end that is closed stays so. */
void td_turns_leave(struct td_turns *t);
/* Wait until the partner is as far as we are, before the first turn. */
void td_turns_meet(struct td_turns *t);
/* Wait for our turn. Does nothing when it is ours. */
void td_turns_take(struct td_turns *t);
void td_turns_give(struct td_turns *t);
/* We are done: leave the other turns to the partner, wait until it is done, too, and close the pipes. */
void td_turns_end(struct td_turns *t);

#endif
