/* recording_gpu_time.c - the share of kernels in the GPU's time: a few requests of its own, at the
 * end of a recording.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/recording_gpu_time.h"

#include "common/clock.h"
#include "recorder/send_requests.h"
#include "recorder/tap_client/tap_client.h"

#define WINDOW_MS 500
#define PROMPTS 4
#define TOKENS 32
#define ROUNDS 16                     /* a server that answers at once gets no more */

static int send_load(struct td_recording *r, struct td_error *err)
{
    const int64_t until = td_clock_mono_ns() + WINDOW_MS * TD_NS_PER_MS;
    int round, rc = TD_OK;

    for (round = 0; round < ROUNDS && !rc && !r->interrupted && !r->server_gone &&
                    td_clock_mono_ns() < until;
         round++)
        rc = td_recording_send_some(r, PROMPTS, TOKENS, 1 + round, err);
    return rc;
}

int td_recording_gpu_time(struct td_recording *r, struct td_error *err)
{
    int rc, end;

    if (!r->client || r->interrupted || r->server_gone || r->opt->no_gpu_time ||
        r->opt->mode.no_launches || !td_tap_client_gpu_time_begin(r->client, WINDOW_MS))
        return TD_OK;
    rc = send_load(r, err);
    td_tap_client_gpu_time_end(r->client);
    end = td_fill_ids_end(r->fill_ids, rc ? NULL : err); /* an answer that it held */
    return rc ? rc : end;
}
