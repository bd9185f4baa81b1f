/* fault.h - faults on request, so that tests of a recorder can meet them. For tests only.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   http500[:N]  every N-th generation request (default: every one) is answered 500
 *   garbage[:N]  event N (default 3, counted from 0) is not JSON; so is the body of an answer that is not streamed
 *   nul-text[:N] from event N on (default 0) the text holds a NUL (as \u0000) and bytes that are not UTF-8
 *   cut[:N]      the connection is closed in the middle of event N (default 3), or instead of a body
 *   die[:N]      the process exits with code 70 instead of event N (default 3), or instead of a body
 *   slow:MS      every step takes MS milliseconds longer */
#ifndef TD_DEMO_SERVER_FAULT_H
#define TD_DEMO_SERVER_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

enum td_fault_kind {
    TD_FAULT_NONE,
    TD_FAULT_HTTP500,
    TD_FAULT_GARBAGE,
    TD_FAULT_NUL_TEXT,
    TD_FAULT_CUT,
    TD_FAULT_DIE,
    TD_FAULT_SLOW
};

struct td_fault {
    enum td_fault_kind kind;
    int n;
};

/* spec: "KIND" or "KIND:N"; NULL: no fault. */
int td_fault_parse(struct td_fault *f, const char *spec, struct td_error *err);
/* Is this generation request (counted from 1) to be answered 500? */
bool td_fault_refuses(const struct td_fault *f, uint64_t request);
/* Spoil event number `event` (one "data: ...\n\n") as asked. True: close the connection once it is
 * sent. May exit. */
bool td_fault_spoil_event(const struct td_fault *f, int event, struct td_buf *bytes);
/* The same for the body of an answer that is not streamed. True: close the connection instead of sending it. */
bool td_fault_spoil_body(const struct td_fault *f, struct td_buf *bytes);
int td_fault_pause_ms(const struct td_fault *f);

#endif
