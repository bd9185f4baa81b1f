/* lib_fake_cupti.c - a fake libcupti.so.13: one subscriber, called before and after each call of
 * the fake driver. It has only what the tap uses.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI allows one subscriber. fake_cupti_occupy(name) makes another tool the subscriber, as if a
 * profiler had come first; TD_FAKE_CUPTI_TAKEN=name does so from the start. fake_cupti_occupy(NULL)
 * frees the place. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/abi/cupti_abi.h"
#include "tests/helpers/fake_cuda/fake_cuda.h"

int cuptiSubscribe(void **subscriber, td_cupti_fn *callback, void *user);
int cuptiSubscribe_v2(void **subscriber, td_cupti_fn *callback, void *user, struct td_cupti_subscriber *params);
int cuptiEnableCallback(uint32_t on, void *subscriber, int domain, uint32_t cbid);
int cuptiUnsubscribe(void *subscriber);
void fake_cupti_occupy(const char *name);
int fake_cupti_subscribed(void);

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
