/* turns.c - two processes that take turns: while one works, the other waits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "common/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define HERE 'h'
#define TURN 't'
#define DONE 'd'
#define STOP_EVERY_MS 100

int td_turns_make(struct td_turns pair[2], struct td_error *err)
{
    int a[2], b[2];

    if (pipe2(a, O_CLOEXEC))
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    if (pipe2(b, O_CLOEXEC)) {
        close(a[0]);
        close(a[1]);
        return td_fail(err, TD_EIO, "pipe: %s", strerror(errno));
    }
    pair[0] = (struct td_turns){.from = a[0], .to = b[1], .ours = true};
    pair[1] = (struct td_turns){.from = b[0], .to = a[1]};
    return TD_OK;
}

void td_turns_leave(struct td_turns *t)
{
    if (t->from >= 0)
        close(t->from);
    if (t->to >= 0)
        close(t->to);
    t->from = t->to = -1;
}

/* A partner that is gone is found when its bytes end. */
static void say(const struct td_turns *t, char what)
{
    ssize_t n;

    do
        n = write(t->to, &what, 1);
    while (n < 0 && errno == EINTR && !(t->stop && *t->stop));
}

/* What the partner says next; DONE also when it is gone, or we are to stop. */
static char hear(const struct td_turns *t)
{
    struct pollfd p = {t->from, POLLIN, 0};
    char what;

    while (!(t->stop && *t->stop)) {
        ssize_t n = poll(&p, 1, STOP_EVERY_MS);

        if (n > 0)
            n = read(t->from, &what, 1);
        else if (n == 0 || errno == EINTR)
            continue;
        if (n == 1)
            return what;
        if (n == 0 || errno != EINTR)
            return DONE;
    }
    return DONE;
}

static void tell(const struct td_turns *t, bool ours)
{
    if (t->changed)
        t->changed(t->arg, ours);
}

void td_turns_meet(struct td_turns *t)
{
    say(t, HERE);
    if (hear(t) == DONE)
        t->ours = t->alone = true;
    if (t->ours)
        tell(t, true);
}

void td_turns_take(struct td_turns *t)
{
    if (t->ours)
        return;
    t->alone = hear(t) == DONE;
    t->ours = true;
    tell(t, true);
}

void td_turns_give(struct td_turns *t)
{
    if (!t->ours || t->alone)
        return;
    tell(t, false);
    t->ours = false;
    say(t, TURN);
}

void td_turns_end(struct td_turns *t)
{
    if (t->ours)
        tell(t, false);
    t->ours = false;
    say(t, DONE);
    while (!t->alone && hear(t) != DONE)
        ;
    td_turns_leave(t);
}
