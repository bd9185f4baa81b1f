/* request_plan.h - choose which requests of a recording are sent again, and with which bodies.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPLAYER_REQUEST_PLAN_H
#define TD_REPLAYER_REQUEST_PLAN_H

#include "wire/api.h"
#include "wire/send.h"

struct td_request_plan_counts {
    int64_t recorded, planned;
    int64_t skipped;            /* cannot be sent again: no JSON body, or redacted and without token ids */
    int64_t never_sent;         /* the recording has no such request either (its server was gone), or lacks its answer
                                   (TD_ERROR_UNSEEN) */
    bool by_token_ids;          /* the recording holds no prompt text: prompts go as token ids */
};

/* Plan the requests of recorded exchanges: those of phase timed, or of phase tapped where there are no timed ones. An
 * exchange whose prompt was redacted is sent with the prompt's token ids.
 *   xs       : [n], any order, borrowed
 *   manifest : of the recording; its "redaction" names what the bodies no longer hold
 *   repeat   : repetitions to send; 0: as many as recorded; more than recorded: the recorded ones start over
 *   speed    : 0 as soon as possible, 1 at the recorded times, N times faster; TD_PLAN_AS_SENT
 *   plan     : the requests are appended       counts : filled; zeroed by the caller
 * TD_EINVAL (too many repetitions), TD_ENOMEM, TD_ELIMIT. */
int td_request_plan_make(const struct td_exchange *xs, size_t n, const cJSON *manifest,
                         int64_t repeat, double speed, struct td_plan *plan,
                         struct td_request_plan_counts *counts, struct td_error *err);

/* Check that the longest recorded exchange (prompt and answer, in tokens) fits the context that `server` gives a request.
 * vLLM refuses a request whose max_tokens do not fit, so max_tokens count there. A length that is not known fits.
 * Returns TD_OK, or TD_EINVAL with both lengths in the sentence. */
int td_request_plan_check_context(const struct td_exchange *xs, size_t n,
                                  const struct td_api_server *server, struct td_error *err);

#endif
