/* request_ids.c - name each request so that the tap's steps can be joined with the exchanges.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/request_ids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/clock.h"

void td_tap_client_nonce(char out[TD_TAP_CLIENT_NONCE])
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = (uint64_t)td_clock_mono_ns() * 0x9e3779b97f4a7c15u;
    snprintf(out, TD_TAP_CLIENT_NONCE, "%016llx", (unsigned long long)r);
}

void td_tap_client_request_id(const char *nonce, uint32_t stream, char out[TD_TAP_CLIENT_ID])
{
    snprintf(out, TD_TAP_CLIENT_ID, "td-%s-%u", nonce, stream);
}

int64_t td_tap_client_request_stream(const char *nonce, const char *id)
{
    char want[TD_TAP_CLIENT_ID];
    const char *p;
    char *end;
    unsigned long long v;

    snprintf(want, sizeof want, "td-%s-", nonce);
    p = strstr(id, want);
    if (!p)
        return -1;
    p += strlen(want);
    if (*p < '0' || *p > '9')
        return -1;
    errno = 0;
    v = strtoull(p, &end, 10);
    return errno || v > UINT32_MAX || (*end && *end != '-' && *end != '_') ? -1 : (int64_t)v;
}
