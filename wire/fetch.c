/* fetch.c - one HTTP request at a time, for probing a server.
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire/fetch.h"

#include <stdio.h>
#include <string.h>

#include "format/records.h"
#include "format/redact_values.h"
#include "wire/curl_setup.h"
#include "wire/open_files.h"
#include "wire/transfer_error.h"

struct body { struct td_buf *to; bool no_memory; };

static size_t append_to_body(char *data, size_t size, size_t n, void *arg)
{
    struct body *b = arg;
    const int rc = td_buf_add(b->to, data, size * n);

    b->no_memory |= rc == TD_ENOMEM;
    return rc ? 0 : size * n;
}

/* Header lines are not kept; too many of them are refused like a body that is too long. */
static size_t count_header(char *data, size_t size, size_t n, void *arg)
{
    size_t *left = arg;

    (void)data;
    if (size * n > *left)
        return 0;
    *left -= size * n;
    return size * n;
}

static int fetch_failed(CURLcode rc, const char *url, const char *why, const struct td_transfer_state *at,
                        bool *unseen, struct td_error *err)
{
    struct td_transfer_error e;
    char limit[256];

    td_transfer_error(rc, why, at, &e);
    *unseen = e.kind && !strcmp(e.kind, TD_ERROR_UNSEEN);
    if (*td_open_files_explain(at->why_errno, 1, limit, sizeof limit))
        return td_fail(err, TD_EIO, "%s: %s", url, limit);
    if (*unseen)
        return td_fail(err, at->no_memory ? TD_ENOMEM : TD_EIO, "%s: %s", url, e.words);
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return td_fail(err, TD_ETIMEOUT, "%s: no answer in time (%s)", url, why);
    if (rc == CURLE_WRITE_ERROR)
        return td_fail(err, TD_ELIMIT, "%s: the answer is longer than 16 MiB; is this an LLM server?", url);
    if (rc == CURLE_COULDNT_RESOLVE_HOST)
        return td_fail(err, TD_EIO, "%s: no such host; check the name in --server", url);
    if (rc == CURLE_COULDNT_CONNECT)
        return td_fail(err, TD_EIO,
                       "%s: nobody listens there (%s); start the server, or give its address as "
                       "--server HOST:PORT",
                       url, why);
    return td_fail(err, TD_EIO, "%s: %s; is this an HTTP server?", url, e.words);
}

int td_http_hide_body(const char *const *headers, struct td_http_reply *reply, struct td_error *err)
{
    struct td_redact_values values;
    int rc = td_redact_values_init(&values, headers, err);

    if (!rc)
        td_redact_values_apply(&values, reply->body.data, reply->body.len, false);
    td_redact_values_release(&values);
    return rc;
}

/* Overwrite the values of headers in what the server wrote, and libcurl quoted. */
static int hide_secrets(const char *const *headers, struct td_http_reply *reply, char *why,
                        struct td_error *err)
{
    char *texts[] = {reply->redirect, reply->content_type, why};
    struct td_redact_values values;
    int rc = td_redact_values_init(&values, headers, err);
    size_t i;

    for (i = 0; !rc && i < sizeof texts / sizeof *texts; i++)
        td_redact_values_apply(&values, texts[i], strlen(texts[i]), true);
    td_redact_values_release(&values);
    return rc || reply->as_it_came ? rc : td_http_hide_body(headers, reply, err);
}

int td_http_fetch(const char *url, const char *const *headers, const char *body, size_t body_len,
                  int timeout_ms, struct td_http_reply *reply, struct td_error *err)
{
    struct curl_slist *list = NULL;
    char why[CURL_ERROR_SIZE] = "";
    size_t head_left = TD_HTTP_REPLY_MAX;
    const char *type = NULL, *redirect = NULL;
    struct td_transfer_state at = {.in_head = true};
    struct body to = {&reply->body, false};
    int no_socket = 0, hidden;
    unsigned no_memory;
    long status = 0, why_errno = 0;
    CURLcode rc;
    CURL *easy;

    td_curl_init();
    no_memory = td_curl_no_memory();
    easy = curl_easy_init();
    if (!easy || td_curl_add_headers(&list, headers)) {
        curl_easy_cleanup(easy);
        curl_slist_free_all(list);
        return td_fail(err, TD_ENOMEM, "out of memory for a request");
    }
    if (!reply->body.max)
        td_buf_init(&reply->body, TD_HTTP_REPLY_MAX);
    td_curl_set_common(easy, url, list, why, &no_socket);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(timeout_ms > 0 && timeout_ms < 10000 ? timeout_ms : 10000));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, append_to_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &to);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &head_left);
    if (body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body_len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    }
    rc = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &redirect);
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &why_errno);
    at.no_memory = to.no_memory || td_curl_no_memory() != no_memory;
    at.why_errno = td_transfer_errno_is_ours(no_socket) ? no_socket : (int)why_errno;
    reply->status = (int)status;
    reply->unseen = false;
    snprintf(reply->redirect, sizeof reply->redirect, "%s", redirect ? redirect : "");
    snprintf(reply->content_type, sizeof reply->content_type, "%s", type ? type : "");
    curl_easy_cleanup(easy);
    curl_slist_free_all(list);
    hidden = hide_secrets(headers, reply, why, err);
    if (hidden)
        return hidden;
    return rc ? fetch_failed(rc, url, why, &at, &reply->unseen, err) : TD_OK;
}
