/* transfer_error.c - what a transfer's failure says about the server, in our words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/transfer_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "format/records.h"

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

bool td_transfer_errno_is_ours(int why)
{
    static const int ours[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN, EADDRNOTAVAIL};
    size_t i;

    for (i = 0; i < sizeof ours / sizeof *ours; i++)
        if (why == ours[i])
            return true;
    return false;
}

/* Did a system call fail for want of something on this machine? libcurl knows no errno where it cannot
 * connect and it was not the socket that failed: poll did. */
static bool is_ours(CURLcode rc, const char *why, int why_errno)
{
    if (rc != CURLE_COULDNT_CONNECT && rc != CURLE_SEND_ERROR && rc != CURLE_RECV_ERROR)
        return false;
    if (rc == CURLE_COULDNT_CONNECT && !why_errno)
        return true;
    return td_transfer_errno_is_ours(why_errno) || strstr(why, "select/poll returned error");
}

/* Does libcurl mean a line of the answer that is longer than it takes? It has no other word for that
 * than those for a lack of memory; version 8.6 has one. */
static bool is_long_line(CURLcode rc, const char *why)
{
#if CURL_AT_LEAST_VERSION(8, 6, 0)
    if (rc == CURLE_TOO_LARGE)
        return true;
#endif
    return rc == CURLE_OUT_OF_MEMORY || strstr(why, "Out of memory in chunked");
}

void td_transfer_error(CURLcode rc, const char *why, const struct td_transfer_state *at,
                       struct td_transfer_error *out)
{
    out->kind = kind_of(rc, why);
    if (rc != CURLE_OK && at->no_memory) {
        out->kind = TD_ERROR_UNSEEN;
        snprintf(out->words, sizeof out->words, "this machine is out of memory for the request");
    } else if (is_ours(rc, why, at->why_errno)) {
        out->kind = TD_ERROR_UNSEEN;
        snprintf(out->words, sizeof out->words, "this machine cannot send the request: %s",
                 at->why_errno ? strerror(at->why_errno) : why);
    } else if (rc == CURLE_OPERATION_TIMEDOUT && at->total_ms) {
        snprintf(out->words, sizeof out->words, "no whole answer within %.1f s", at->total_ms / 1000.0);
    } else if (is_long_line(rc, why)) {
        snprintf(out->words, sizeof out->words, "%s",
                 at->in_head ? "a header line is longer than 100 KiB" /* so in libcurl 7.88 */
                             : "a trailer is longer than libcurl takes");
    } else {
        snprintf(out->words, sizeof out->words, "%s%s%.180s", describe(rc, why), *why ? ": " : "",
                 why);
    }
}
