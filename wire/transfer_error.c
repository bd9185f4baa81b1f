/* transfer_error.c - what a transfer's failure says about the server, in our words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/transfer_error.h"

#include <stdio.h>
#include <string.h>

/* Did the server send bytes that are no HTTP/1? libcurl also reports schemes that it does not know
 * by UNSUPPORTED_PROTOCOL. */
static bool is_no_http(CURLcode rc, const char *why)
{
    return rc == CURLE_WEIRD_SERVER_REPLY || rc == CURLE_BAD_CONTENT_ENCODING ||
           (rc == CURLE_UNSUPPORTED_PROTOCOL && !strstr(why, "not supported"));
}

static const char *kind_of(CURLcode rc, const char *why)
{
    if (is_no_http(rc, why))
        return "parse";
    switch (rc) {
    case CURLE_OK:
        return NULL;
    case CURLE_OPERATION_TIMEDOUT:
        return "timeout";
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return "connect";
    default:
        return "cut";
    }
}

static const char *describe(CURLcode rc, const char *why)
{
    if (rc == CURLE_BAD_CONTENT_ENCODING)
        return "the answer is encoded in a way that was not asked for";
    if (is_no_http(rc, why))
        return "the server does not answer in HTTP";
    switch (rc) {
    case CURLE_GOT_NOTHING:
        return "the server closed the connection without an answer";
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
        return "the connection ended in the middle of the answer";
    case CURLE_SEND_ERROR:
        return "the connection ended while the request was sent";
    case CURLE_COULDNT_CONNECT:
        return "cannot connect";
    default:
        return curl_easy_strerror(rc);
    }
}

void td_transfer_error(CURLcode rc, const char *why, bool in_head, int total_ms,
                       struct td_transfer_error *out)
{
    out->kind = kind_of(rc, why);
    if (rc == CURLE_OPERATION_TIMEDOUT && total_ms)
        snprintf(out->words, sizeof out->words, "no whole answer within %.1f s", total_ms / 1000.0);
    else if (rc == CURLE_OUT_OF_MEMORY && in_head) /* so libcurl 7 reports its limit of 100 KiB */
        snprintf(out->words, sizeof out->words,
                 "a header line is longer than 100 KiB, or this machine is out of memory");
    else if (rc == CURLE_OUT_OF_MEMORY)
        snprintf(out->words, sizeof out->words,
                 "a trailer is longer than libcurl takes, or this machine is out of memory");
    else
        snprintf(out->words, sizeof out->words, "%s%s%.180s", describe(rc, why), *why ? ": " : "",
                 why);
}
