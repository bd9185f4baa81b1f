/* suite.h - load a suite, a list of prompts, and plan its requests.
 * SPDX-License-Identifier: Apache-2.0
 *
 * {"id":"short-1","category":"short","prompt":"…" | "messages":[…] | "prompt_token_ids":[…],"max_tokens":48,"concurrency":2}
 * Suites are built in ("quick", "full") or files. Blank lines and lines that begin with # are
 * skipped. Unknown members are a usage error: a typing mistake must not change what is measured. */
#ifndef TD_WIRE_SUITE_H
#define TD_WIRE_SUITE_H

#include "common/hash.h"
#include "wire/api_body.h"
#include "wire/arrival.h"
#include "wire/send_plan.h"

#define TD_SUITE_MAX_PROMPTS 100000
#define TD_SUITE_MAX_BYTES ((size_t)256 << 20)

struct td_suite {
    char *name;               /* "quick", or the file's name without folder and ending */
    struct td_prompt *prompts; size_t n;
    struct td_hash hash;      /* of the file's bytes */
};

/* Load a suite.
 *   name : "quick", "full" (in fixtures/suites beside the program's folder), or a path
 * TD_ENOTFOUND; TD_EINVAL with the line's number. */
int td_suite_load(const char *name, struct td_suite *out, struct td_error *err);
int td_suite_parse(const char *text, size_t n, const char *name, struct td_suite *out, struct td_error *err);
void td_suite_release(struct td_suite *s);

struct td_suite_sending {
    int32_t first_repeat, repeats;
    int32_t concurrency;      /* 0: that of the suite */
    enum td_phase phase;
    int64_t most;             /* requests; 0: all of these repeats */
    const struct td_arrival *arrival; /* each has a time of its own, and all are one group; NULL: groups follow one another */
};
/* Append the requests of `repeats` repetitions of the suite. A group is up to N prompts that ask
 * for concurrency N, in the suite's order; groups of another N follow, in the order in which the
 * levels first appear. Of the timed phase, the groups of a level above 1 are a closed loop (send_plan.h),
 * and with `concurrency` all repeats are one: also those that are appended by another call. With `arrival`
 * prompts follow one another in the suite's order, and have concurrency 0. */
int td_suite_plan(const struct td_suite *suite, const struct td_api_server *server, const struct td_sampling *sampling,
                  const struct td_suite_sending *how, struct td_plan *plan, struct td_error *err);

#endif
