/* cuda_times.c - the share of kernels in the GPU's time, and which of them the tap records.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "recorder/tap/core/tap_time.h"
#include "recorder/tap/cuda/cuda_graph_names.h"
#include "recorder/tap/cuda/cuda_load.h"
#include "recorder/tap/cuda/cuda_times.h"
#include "recorder/tap/cuda/cupti_times.h"

static int64_t began_ns, window_ns;

const char *tap_cuda_times_begin(void)
{
    const char *why = tap_cuda_load();

    tap_cuda_times_drop();
    if (!why)
        why = tap_cupti_times_open();
    if (!why && !tap_gpu_times_new()) {
        tap_cupti_times_close(NULL);
        why = "there is no memory for the times of kernels";
    }
    began_ns = tap_now();
    return why;
}

/* Close the window, and find out who launches what it holds. */
static void close_window(struct tap_gpu_times *t)
{
    window_ns = tap_now() - began_ns;
    t->most_ns = (uint64_t)window_ns;
    tap_cupti_times_close(t);
    tap_gpu_times_note_launched(t);
    tap_cuda_graph_names_note(t);
}

static uint32_t at_most(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

const char *tap_cuda_times_end(struct tap_msg *reply)
{
    struct tap_gpu_times *t = tap_gpu_times();

    if (!t)
        return "no window was open";
    if (tap_cupti_times_is_open())
        close_window(t);
    if (!reply)
        return NULL;
    reply->number = t->n + (t->rest.n ? 1 : 0);
    reply->lost = at_most(t->lost);
    reply->launches = t->launches;
    reply->time_ns = t->ns;
    reply->window_ns = (uint64_t)window_ns;
    return NULL;
}

const char *tap_cuda_times_get(uint32_t number, struct tap_msg *reply)
{
    const struct tap_gpu_times *t = tap_gpu_times();
    const struct tap_gpu_time *k;

    if (!t || tap_cupti_times_is_open() || number > t->n || (number == t->n && !t->rest.n))
        return "there is no such kernel";
    k = number < t->n ? &t->at[number] : &t->rest;
    reply->mode = tap_gpu_times_seen(k);
    reply->launches = k->n;
    reply->time_ns = k->ns;
    snprintf(reply->kernel, sizeof reply->kernel, "%s", k->symbol);
    return NULL;
}

void tap_cuda_times_drop(void)
{
    tap_cupti_times_close(NULL);
    tap_gpu_times_drop();
}

void tap_cuda_times_forget(void)
{
    tap_cupti_times_forget();
    tap_gpu_times_forget();
}
