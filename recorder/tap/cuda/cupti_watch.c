/* cupti_watch.c - CUPTI's callbacks on and off.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "recorder/tap/cuda/cuda_graphs.h"
#include "recorder/tap/cuda/cuda_load.h"
#include "recorder/tap/cuda/cupti_watch.h"

#define NAME_BYTES 96                 /* CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN is 64 */

static void *subscriber;              /* NULL: not subscribed */
static char sentence[TAP_TEXT];

static const uint32_t watched[] = {TD_CBID_LAUNCH_KERNEL,      TD_CBID_LAUNCH_KERNEL_PTSZ,
                                   TD_CBID_LAUNCH_KERNEL_EX,   TD_CBID_LAUNCH_KERNEL_EX_PTSZ,
                                   TD_CBID_LAUNCH_COOPERATIVE, TD_CBID_LAUNCH_COOPERATIVE_PTSZ,
                                   TD_CBID_GRAPH_LAUNCH,       TD_CBID_GRAPH_LAUNCH_PTSZ};

bool tap_cupti_is_watching(void)
{
    return subscriber;
}

void tap_cupti_unwatch(void)
{
    if (subscriber)
        tap_cupti.unsubscribe(subscriber);
    subscriber = NULL;
}

void tap_cupti_watch_forget(void)
{
    subscriber = NULL;
}

/* Subscribe. A CUptiResult; other[NAME_BYTES]: who has the place, "" where that is not told. */
static int take_place(tap_cupti_callback *callback, char *other)
{
    struct td_cupti_subscriber p = {sizeof p, "tapedeck", other, NAME_BYTES};
    int rc = tap_cupti.subscribe_v2 ? tap_cupti.subscribe_v2(&subscriber, callback, NULL, &p)
                                    : tap_cupti.subscribe(&subscriber, callback, NULL);

    if (rc)
        subscriber = NULL;
    return rc;
}

const char *tap_cupti_watch(tap_cupti_callback *callback)
{
    char other[NAME_BYTES] = "";
    unsigned more;
    size_t i;
    int rc;

    if (subscriber)
        return NULL;
    rc = take_place(callback, other);
    for (i = 0; i < sizeof watched / sizeof *watched && !rc; i++)
        rc = tap_cupti.enable(1, subscriber, TD_CUPTI_DOMAIN_DRIVER, watched[i]);
    for (more = 0; tap_cuda_graphs_on() && tap_cuda_graphs_watched(more) && !rc; more++)
        /* a refusal is no error: this CUPTI is older than that function */
        tap_cupti.enable(1, subscriber, TD_CUPTI_DOMAIN_DRIVER, tap_cuda_graphs_watched(more));
    if (!rc)
        return NULL;
    tap_cupti_unwatch();
    if (rc == TD_CUPTI_MULTIPLE_SUBSCRIBERS)
        snprintf(sentence, sizeof sentence,
                 "CUPTI, which has one place a process, is in use by %s: no launch is seen, only "
                 "operators and cuBLAS; start the server without it, or give --launches off",
                 other[0] ? other : "another profiler");
    else
        snprintf(sentence, sizeof sentence,
                 "CUPTI refuses its callbacks (CUptiResult %d): no launch on the GPU is seen", rc);
    return sentence;
}

static void on_nothing(void *user, int domain, uint32_t cbid, const void *data)
{
    (void)user, (void)domain, (void)cbid, (void)data;
}

const char *tap_cupti_hold(void)
{
    char other[NAME_BYTES] = "";
    int rc = subscriber ? 0 : take_place(on_nothing, other);

    if (!rc)
        return NULL;
    if (rc == TD_CUPTI_MULTIPLE_SUBSCRIBERS)
        snprintf(sentence, sizeof sentence, "CUPTI, which has one place a process, is in use by %s",
                 other[0] ? other : "another profiler");
    else
        snprintf(sentence, sizeof sentence, "CUPTI refuses its place (CUptiResult %d)", rc);
    return sentence;
}
