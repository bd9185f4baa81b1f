/* fixture_lock.h - one writer of a fixture at a time, and who that is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Who writes to the folder of a fixture (a recording, a replay, a repair) holds a lock on the file
 * writer.lock in it. The file says who: {"program":"record","pid":71,"wall_ns":...,"host":"a"}. The
 * lock is the open file's (F_OFD_SETLK): the system releases it when the process ends, however it
 * ends. A file that was left without a lock means nothing. Readers hold no lock, they only ask, so
 * that a fixture that may only be read can be read. */
#ifndef TD_COMMON_FIXTURE_LOCK_H
#define TD_COMMON_FIXTURE_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/fs.h"

#define TD_FIXTURE_LOCK_NAME "writer.lock"

/* Must not move while it is held. */
struct td_fixture_lock {
    int fd;                       /* -1: not held, or the file system has no locks */
    bool held;
    char path[TD_PATH_MAX];
    dev_t dev; ino_t ino;
    struct td_fixture_lock *next; /* of those that this process holds */
};

/* Take the lock of the folder, and write down who we are ("record", "fixture repair").
 * TD_EBUSY: somebody writes to the folder, who is named; TD_EIO: the file cannot be made. Where the
 * file system has no locks, nothing is locked and TD_OK returned. */
int td_fixture_lock_take(struct td_fixture_lock *l, const char *dir, const char *program,
                         struct td_error *err);
/* Release the lock and remove its file. Does nothing when it is not held. */
void td_fixture_lock_release(struct td_fixture_lock *l);
/* Release the lock as the end of the process would: the file stays. */
void td_fixture_lock_leave(struct td_fixture_lock *l);
/* Does another process write to this folder? TD_OK: no, or it is this process, or there is no such
 * folder; TD_EBUSY: yes, err names it. */
int td_fixture_lock_check(const char *dir, struct td_error *err);

#endif
