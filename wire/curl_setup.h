/* curl_setup.h - what all requests ask of libcurl: headers, protocols, no proxy, no redirects.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_CURL_SETUP_H
#define TD_WIRE_CURL_SETUP_H

#include <curl/curl.h>

#include "common/error.h"

/* Set libcurl up, once in a process. */
void td_curl_init(void);

/* Allocations of libcurl that have failed in this process so far. Its own word for that,
 * CURLE_OUT_OF_MEMORY, also means a header line that is longer than it takes (7.88: 100 KiB). */
unsigned td_curl_no_memory(void);

/* Append our headers, then these ("Name: value", NULL-terminated, or NULL). TD_OK, TD_ENOMEM; the
 * caller frees *list in both cases. */
int td_curl_add_headers(struct curl_slist **list, const char *const *headers);

/* Set what all requests have in common.
 *   why       : [CURL_ERROR_SIZE], gets libcurl's words
 *   no_socket : gets errno when no socket can be made */
void td_curl_set_common(CURL *easy, const char *url, struct curl_slist *headers, char *why,
                        int *no_socket);

#endif
