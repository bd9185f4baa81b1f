/* cupti_times.c - a window in which CUPTI notes how long each kernel ran.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "recorder/tap/core/tap_time.h"
#include "recorder/tap/cuda/cuda_load.h"
#include "recorder/tap/cuda/cupti_times.h"
#include "recorder/tap/cuda/cupti_watch.h"
#include "recorder/tap/gpu/gpu_threads.h"

#define BUFFERS 32u
#define BUFFER_BYTES (1u << 20)       /* 4,000 to 5,000 records */
#define IN_FLIGHT_MS 200              /* what was launched has run by then */

enum buffer_state { FREE, LENT, BACK };
static struct { _Atomic int state; size_t valid_bytes; } buffer[BUFFERS];
static uint8_t *memory;               /* of all buffers; NULL: none yet */
static _Atomic bool lending;          /* the window is open */
static _Atomic uint32_t refused;      /* buffers that CUPTI asked for in vain */
static bool open, took_place;
static char sentence[TAP_TEXT];

/* ---- buffers: called by CUPTI, on any thread ------------------------------------------------- */

static void lend(uint8_t **to, size_t *bytes, size_t *most_records)
{
    unsigned i;

    *to = NULL;
    *bytes = *most_records = 0;
    for (i = 0; i < BUFFERS && atomic_load(&lending); i++) {
        int is = FREE;

        if (!atomic_compare_exchange_strong(&buffer[i].state, &is, LENT))
            continue;
        *to = memory + (size_t)i * BUFFER_BYTES;
        *bytes = BUFFER_BYTES;
        return;
    }
    atomic_fetch_add(&refused, 1);
}

static void take_back(void *context, uint32_t stream, uint8_t *from, size_t bytes,
                      size_t valid_bytes)
{
    size_t at = (size_t)(from - memory);

    (void)context, (void)stream;
    if (!memory || from < memory || at >= (size_t)BUFFERS * BUFFER_BYTES || at % BUFFER_BYTES ||
        bytes > BUFFER_BYTES || valid_bytes > bytes)
        return;
    buffer[at / BUFFER_BYTES].valid_bytes = valid_bytes;
    atomic_store(&buffer[at / BUFFER_BYTES].state, BACK);
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char *map_buffers(void)
{
    void *p;

    if (memory)
        return NULL;
    p = mmap(NULL, (size_t)BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = p == MAP_FAILED ? NULL : p;
    return memory ? NULL : "there is no memory for the times of kernels";
}

/* Are records of this library laid out as struct td_cupti_kernel says? */
static const char *check_version(void)
{
    uint32_t version = 0;

#define MISSES(name, member, args) || !tap_cupti.member
    if (false TD_CUPTI_TIMES(MISSES) || tap_cupti.get_version(&version))
        return "libcupti.so does not note the times of kernels";
    if ((version >= TD_CUPTI_VERSION_12_0 && version <= TD_CUPTI_VERSION_12_9) ||
        (version >= TD_CUPTI_VERSION_13_0 && version <= TD_CUPTI_VERSION_13_5))
        return NULL;
    snprintf(sentence, sizeof sentence,
             "the layout of CUPTI's records is known for CUDA 12.0 to 12.9 and 13.0 to 13.5, and "
             "this CUPTI has version %u",
             version);
    return sentence;
}

/* Begin to note. The place for callbacks is ours. */
static const char *enable(void)
{
    int rc = tap_cupti.register_buffers(lend, take_back);

    atomic_store(&lending, true);
    if (!rc)
        rc = tap_cupti.activity_enable(TD_CUPTI_KIND_CONCURRENT_KERNEL);
    if (!rc)
        return NULL;
    atomic_store(&lending, false);
    if (rc == TD_CUPTI_MULTIPLE_SUBSCRIBERS)
        return "CUPTI, which has one place a process, is in use by another profiler";
    snprintf(sentence, sizeof sentence, "CUPTI does not note the times of kernels (CUptiResult %d)",
             rc);
    return sentence;
}

static const char *open_window(void)
{
    const char *why = check_version();

    if (!why)
        why = map_buffers();
    if (why)
        return why;
    took_place = !tap_cupti_is_watching();
    why = tap_cupti_hold();
    if (why)
        return why;
    why = enable();
    if (why && took_place)
        tap_cupti_unwatch();
    return why;
}

const char *tap_cupti_times_open(void)
{
    bool own = tap_gpu_set_own_calls(true);
    const char *why = open ? "a window is open already" : open_window();

    open |= !why;
    tap_gpu_set_own_calls(own);
    return why;
}

bool tap_cupti_times_is_open(void)
{
    return open;
}

/* ---- closing --------------------------------------------------------------------------------- */

static void add_records(struct tap_gpu_times *t, uint8_t *from, size_t valid_bytes)
{
    const struct td_cupti_kernel *k;
    void *record = NULL;

    while (!tap_cupti.activity_next(from, valid_bytes, &record)) {
        k = record;
        if (k->kind == TD_CUPTI_KIND_CONCURRENT_KERNEL || k->kind == TD_CUPTI_KIND_KERNEL)
            tap_gpu_times_add(t, k->name, k->start, k->end);
    }
}

/* Read the buffers that came back. One that CUPTI keeps stays lent. */
static void read_buffers(struct tap_gpu_times *t)
{
    unsigned i;

    for (i = 0; i < BUFFERS; i++) {
        uint8_t *from = memory + (size_t)i * BUFFER_BYTES;

        if (atomic_load(&buffer[i].state) != BACK)
            continue;
        if (t)
            add_records(t, from, buffer[i].valid_bytes);
        madvise(from, BUFFER_BYTES, MADV_DONTNEED);
        atomic_store(&buffer[i].state, FREE);
    }
}

void tap_cupti_times_close(struct tap_gpu_times *t)
{
    bool own = tap_gpu_set_own_calls(true);
    size_t lost = 0;

    if (open) {
        tap_cupti.activity_disable(TD_CUPTI_KIND_CONCURRENT_KERNEL);
        /* For each graph that still runs at a forced flush, CUPTI (CUDA 13.0) keeps memory for
         * good: 6 KiB for one of 400 kernels. */
        tap_sleep_ms(IN_FLIGHT_MS);
        tap_cupti.activity_flush(TD_CUPTI_FLUSH_FORCED);
        atomic_store(&lending, false);
        read_buffers(t);
        if (!tap_cupti.activity_lost(NULL, 0, &lost) && t)
            t->lost += lost;
        if (t && !lost)               /* a buffer in vain is a record at least */
            t->lost += atomic_load(&refused);
        atomic_store(&refused, 0);
        if (took_place)
            tap_cupti_unwatch();
    }
    open = false;
    tap_gpu_set_own_calls(own);
}

void tap_cupti_times_forget(void)
{
    unsigned i;

    memory = NULL;                    /* the parent's */
    for (i = 0; i < BUFFERS; i++)
        atomic_store(&buffer[i].state, FREE);
    atomic_store(&lending, false);
    atomic_store(&refused, 0);
    open = false;
}
