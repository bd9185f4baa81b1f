/* transfer_error.h - what a transfer's failure says about the server, in our words.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_TRANSFER_ERROR_H
#define TD_WIRE_TRANSFER_ERROR_H

#include <curl/curl.h>
#include <stdbool.h>

struct td_transfer_error {
    const char *kind;         /* "connect", "timeout", "cut", "parse"; NULL: no failure */
    char words[256];          /* a sentence */
};

/* Say what the server did, not what libcurl did.
 *   why      : libcurl's words, or ""
 *   in_head  : the answer's headers were not complete
 *   total_ms : the time that a whole answer may take, and has taken; 0: it has not */
void td_transfer_error(CURLcode rc, const char *why, bool in_head, int total_ms,
                       struct td_transfer_error *out);

#endif
