/* error.h - how errors are passed up: a code, and one sentence beside it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A function that can fail takes a struct td_error * as its last argument and returns 0 (or a
 * count) or a TD_E* code.
 *     return td_fail(err, TD_EIO, "%s: cannot open: %s; does the folder exist?", path,
 *     strerror(errno));
 * The first sentence wins, as it is nearest to the cause. It should name the cause and what to do
 * next. */
#ifndef TD_COMMON_ERROR_H
#define TD_COMMON_ERROR_H

enum td_code {
    TD_OK = 0,
    TD_EIO = -1,         /* the system refused: open, read, write, connect */
    TD_ENOMEM = -2,
    TD_EINVAL = -3,      /* the caller's or the user's argument */
    TD_ELIMIT = -4,      /* a maximum was exceeded */
    TD_ETRUNCATED = -5,  /* data ends too early */
    TD_ECORRUPT = -6,    /* a checksum or a structure does not hold */
    TD_EVERSION = -7,    /* written by a version that this one cannot read */
    TD_EEXIST = -8,
    TD_ENOTFOUND = -9,
    TD_EUNSUPPORTED = -10,
    TD_ETIMEOUT = -11,
    TD_EPROTO = -12,     /* the other side does not speak the protocol expected */
    TD_EINTR = -13,      /* the user asked to stop */
    TD_ECRASH = -14,     /* a child died or hung */
    TD_EBUSY = -15       /* another process writes there now */
};

struct td_error {
    int code;            /* 0 or the first TD_E* */
    char msg[480];
};

/* Note code and sentence unless one is there already; returns code. err may be NULL. In fmt,
 * "{replay}" is written as the user calls that program (common/invocation.h). */
int td_fail(struct td_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Put "where: " in front of the sentence. Returns err->code. */
int td_fail_at(struct td_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void td_error_clear(struct td_error *err);
const char *td_code_name(int code); /* "corrupt", "not found" ... */

/* Exit codes of the programs (docs/verdicts.md). */
enum td_exit { TD_EXIT_OK = 0, TD_EXIT_REGRESSED = 1, TD_EXIT_USAGE = 2, TD_EXIT_INCONCLUSIVE = 3, TD_EXIT_BROKEN = 4 };
/* 2 for TD_EINVAL and TD_EEXIST, 4 for the others, 0 for TD_OK. */
int td_exit_code(int code);

#endif
