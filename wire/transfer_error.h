/* transfer_error.h - what a transfer's failure says about the server, in our words.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_TRANSFER_ERROR_H
#define TD_WIRE_TRANSFER_ERROR_H

#include <curl/curl.h>
#include <stdbool.h>

struct td_transfer_error {
    const char *kind;         /* "connect", "timeout", "cut", "parse", TD_ERROR_UNSEEN; NULL: no failure */
    char words[256];          /* a sentence */
};

struct td_transfer_state {
    bool in_head;             /* the answer's headers were not complete */
    bool no_memory;           /* libcurl lacked memory meanwhile (td_curl_no_memory): the server is not to blame */
    int why_errno;            /* of the system call that failed; 0: none is known */
    int total_ms;             /* the time that a whole answer may take, and has taken; 0: it has not */
};

/* Say what the server did, not what libcurl did.
 *   why : libcurl's words, or "" */
void td_transfer_error(CURLcode rc, const char *why, const struct td_transfer_state *at,
                       struct td_transfer_error *out);

/* Does a call of the network fail with this errno for want of memory, files, ports or the like on this
 * machine? */
bool td_transfer_errno_is_ours(int why);

#endif
