/* lib_fake_cupti.c - a fake libcupti.so.13: one subscriber, called before and after each call of
 * the fake driver. It has only what the tap uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI allows one subscriber. fake_cupti_occupy(name) makes another tool the subscriber, as if a
 * profiler had come first; TD_FAKE_CUPTI_TAKEN=name does so from the start. fake_cupti_occupy(NULL)
 * frees the place.
 *
 * Between cuptiActivityEnable and cuptiActivityDisable each kernel that runs has a record, of 1 us
 * after 1 us: so shares of time are shares of launches. TD_FAKE_CUPTI_VERSION is the version that the
 * library says it has. fake_cupti_note() writes records by hand. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/abi/cupti_abi.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

int cuptiSubscribe(void **subscriber, td_cupti_fn *callback, void *user);
int cuptiSubscribe_v2(void **subscriber, td_cupti_fn *callback, void *user, struct td_cupti_subscriber *params);
int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t cbid);
int cuptiUnsubscribe(void *subscriber);
void fake_cupti_occupy(const char *name);
int fake_cupti_subscribed(void);
int fake_cupti_is_timing(void);
void fake_cupti_in_flight(int ms);
int fake_cupti_left_behind(void);
void fake_cupti_version(uint32_t version);
void fake_cupti_note(const char *symbol, uint64_t start, uint64_t end);
#define DECLARE(name, member, args) int name args;
TD_CUPTI_TIMES(DECLARE)

#define CBIDS 1024u

/* A call of another thread may be under way while the subscriber changes. */
static struct { td_cupti_fn *_Atomic callback; void *_Atomic user; _Atomic bool on[CBIDS]; char name[64]; } held;
static _Atomic int subscriber_is;      /* 0: nobody, 1: the tap, 2: another tool */

static const struct fake_cuda_api *driver(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    const struct fake_cuda_api *(*api)(void) = (const struct fake_cuda_api *(*)(void))dlsym(h ? h : RTLD_DEFAULT, "fake_cuda_api");

    return api ? api() : NULL;
}

static void on_call(const struct fake_cuda_call *call, void *user)
{
    int result = call->result;
    struct td_cupti_data d = {.site = call->exit ? TD_CUPTI_EXIT : TD_CUPTI_ENTER, .function = call->name, .params = call->params,
                               .result = call->exit ? &result : NULL, .symbol = call->symbol, .context = call->context,
                               .correlation_data = call->correlation_data, .correlation_id = call->correlation};

    (void)user;
    if (atomic_load(&subscriber_is) == 1 && call->cbid < CBIDS && atomic_load(&held.on[call->cbid]))
        atomic_load(&held.callback)(atomic_load(&held.user), TD_CUPTI_DOMAIN_DRIVER, call->cbid, &d);
}

int cuptiSubscribe_v2(void **subscriber, td_cupti_fn *callback, void *user, struct td_cupti_subscriber *params)
{
    int nobody = 0;
    uint32_t i;

    if (!driver())
        return 999;                    /* CUPTI_ERROR_UNKNOWN */
    if (!atomic_compare_exchange_strong(&subscriber_is, &nobody, 1)) {
        if (params && params->old_name && params->struct_size == sizeof *params)
            snprintf(params->old_name, params->old_size, "CUPTI for %s", held.name);
        return TD_CUPTI_MULTIPLE_SUBSCRIBERS;
    }
    for (i = 0; i < CBIDS; i++)
        atomic_store(&held.on[i], false);
    atomic_store(&held.callback, callback);
    atomic_store(&held.user, user);
    snprintf(held.name, sizeof held.name, "%s", params && params->name ? params->name : "");
    *subscriber = &held;
    driver()->on_call(on_call, NULL);
    return TD_CUPTI_SUCCESS;
}

int cuptiSubscribe(void **subscriber, td_cupti_fn *callback, void *user)
{
    return cuptiSubscribe_v2(subscriber, callback, user, NULL);
}

int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t cbid)
{
    if (subscriber != &held || domain != TD_CUPTI_DOMAIN_DRIVER || cbid >= CBIDS)
        return 1;
    atomic_store(&held.on[cbid], on != 0);
    return TD_CUPTI_SUCCESS;
}

int cuptiUnsubscribe(void *subscriber)
{
    if (subscriber != &held || atomic_load(&subscriber_is) != 1)
        return 1;
    driver()->on_call(NULL, NULL);
    atomic_store(&subscriber_is, 0);
    return TD_CUPTI_SUCCESS;
}

void fake_cupti_occupy(const char *name)
{
    atomic_store(&subscriber_is, name ? 2 : 0);
    snprintf(held.name, sizeof held.name, "%s", name ? name : "");
}

__attribute__((constructor)) static void occupy_from_start(void)
{
    const char *name = getenv("TD_FAKE_CUPTI_TAKEN");

    if (name)
        fake_cupti_occupy(name);
}

int fake_cupti_subscribed(void)
{
    return atomic_load(&subscriber_is) == 1;
}

/* ---- times of kernels ------------------------------------------------------------------------ */

#define RECORD_BYTES 216               /* of CUpti_ActivityKernel10 */

static struct {
    pthread_mutex_t lock;
    td_cupti_request_fn *request;
    td_cupti_complete_fn *complete;
    _Atomic bool on;
    uint8_t *buffer;
    size_t bytes, used, lost;
    uint64_t now;
    struct timespec runs_until;        /* what was launched last is in flight until then */
    int left_behind;                   /* forced flushes while something was */
    uint32_t version;
} times = {.lock = PTHREAD_MUTEX_INITIALIZER, .now = 1000};

static void give_back(void)
{
    if (times.buffer)
        times.complete(NULL, 0, times.buffer, times.bytes, times.used);
    times.buffer = NULL;
}

static void note(const char *symbol, uint64_t start, uint64_t end)
{
    struct td_cupti_kernel k = {.kind = TD_CUPTI_KIND_CONCURRENT_KERNEL, .start = start, .end = end, .name = symbol};
    size_t most = 0;

    if (times.buffer && times.used + RECORD_BYTES > times.bytes)
        give_back();
    if (!times.buffer) {
        times.used = 0;
        times.request(&times.buffer, &times.bytes, &most);
    }
    if (!times.buffer) {
        times.lost++;
        return;
    }
    memset(times.buffer + times.used, 0x5a, RECORD_BYTES);
    memcpy(times.buffer + times.used, &k, sizeof k);
    times.used += RECORD_BYTES;
}

void fake_cupti_note(const char *symbol, uint64_t start, uint64_t end)
{
    pthread_mutex_lock(&times.lock);
    if (times.on)
        note(symbol, start, end);
    pthread_mutex_unlock(&times.lock);
}

static void on_ran(const char *symbol)
{
    pthread_mutex_lock(&times.lock);
    if (times.on)
        note(symbol, times.now, times.now + 1000);
    times.now += 2000;
    pthread_mutex_unlock(&times.lock);
}

/* What was launched by now runs for so long. */
void fake_cupti_in_flight(int ms)
{
    clock_gettime(CLOCK_MONOTONIC, &times.runs_until);
    times.runs_until.tv_nsec += ms * 1000000L;
    times.runs_until.tv_sec += times.runs_until.tv_nsec / 1000000000;
    times.runs_until.tv_nsec %= 1000000000;
}

int fake_cupti_left_behind(void)
{
    return times.left_behind;
}

static bool is_in_flight(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec < times.runs_until.tv_sec || (t.tv_sec == times.runs_until.tv_sec && t.tv_nsec < times.runs_until.tv_nsec);
}

void fake_cupti_version(uint32_t version)
{
    times.version = version;
}

int fake_cupti_is_timing(void)
{
    return times.on;
}

int cuptiGetVersion(uint32_t *version)
{
    const char *said = getenv("TD_FAKE_CUPTI_VERSION");

    *version = times.version ? times.version : said ? (uint32_t)strtoul(said, NULL, 10) : 130001;
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityRegisterCallbacks(td_cupti_request_fn *request, td_cupti_complete_fn *complete)
{
    pthread_mutex_lock(&times.lock);
    times.request = request;
    times.complete = complete;
    pthread_mutex_unlock(&times.lock);
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityEnable(int kind)
{
    if (kind != TD_CUPTI_KIND_CONCURRENT_KERNEL || !times.request || !driver())
        return 1;
    pthread_mutex_lock(&times.lock);
    times.on = true;
    pthread_mutex_unlock(&times.lock);
    driver()->on_ran(on_ran);
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityDisable(int kind)
{
    (void)kind;
    pthread_mutex_lock(&times.lock);
    times.on = false;
    pthread_mutex_unlock(&times.lock);
    driver()->on_ran(NULL);
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityFlushAll(uint32_t how)
{
    pthread_mutex_lock(&times.lock);
    times.left_behind += how == TD_CUPTI_FLUSH_FORCED && is_in_flight();
    give_back();
    pthread_mutex_unlock(&times.lock);
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, void **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + RECORD_BYTES : buffer;

    if (next + RECORD_BYTES > buffer + valid_bytes)
        return 12;                     /* CUPTI_ERROR_MAX_LIMIT_REACHED */
    *record = next;
    return TD_CUPTI_SUCCESS;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&times.lock);
    *n = times.lost;
    times.lost = 0;
    pthread_mutex_unlock(&times.lock);
    return TD_CUPTI_SUCCESS;
}
