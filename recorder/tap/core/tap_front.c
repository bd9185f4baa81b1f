/* tap_front.c - go through the list of fronts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap/core/tap_front.h"

#include <stdio.h>
#include <string.h>

#include "recorder/tap/core/tap_plan.h"

_Atomic bool tap_gpu_launches_seen;

/* The list is the section tap_fronts, which fronts.c fills and the linker puts between these two
 * names: so nothing here depends on a front, and the list is there before any code runs. Without
 * fronts.c (a test of the core) it is empty. */
extern const struct tap_front *const __start_tap_fronts[]
    __attribute__((weak, visibility("hidden")));
extern const struct tap_front *const __stop_tap_fronts[]
    __attribute__((weak, visibility("hidden")));

#define FOR_EACH_FRONT(f) \
    for (const struct tap_front *const *f = __start_tap_fronts; f != __stop_tap_fronts; f++)

static _Atomic bool lacked_memory;

void tap_front_lacks_memory(void)
{
    atomic_store(&lacked_memory, true);
}

bool tap_fronts_lacked_memory(void)
{
    return atomic_load(&lacked_memory);
}

void tap_fronts_set_awake(bool awake)
{
    FOR_EACH_FRONT(f)
        if ((*f)->set_awake)
            (*f)->set_awake(awake);
}

const char *tap_fronts_set_rows(const char *text, size_t n)
{
    const char *first = NULL;

    FOR_EACH_FRONT(f) {
        const char *s = (*f)->set_rows ? (*f)->set_rows(text, n) : NULL;

        first = first ? first : s;
    }
    return first;
}

const char *tap_fronts_start(void)
{
    const char *first = NULL;

    FOR_EACH_FRONT(f) {
        const char *s = (*f)->start ? (*f)->start() : NULL;

        first = first ? first : s;
    }
    return first;
}

void tap_fronts_stop(int wait_ms)
{
    FOR_EACH_FRONT(f)
        if ((*f)->stop)
            (*f)->stop(wait_ms);
}

void tap_fronts_tick(void)
{
    FOR_EACH_FRONT(f)
        if ((*f)->tick && atomic_load(&tap_generation))
            (*f)->tick();
}

int tap_fronts_tick_ms(int max_ms)
{
    int ms = max_ms, wanted;

    FOR_EACH_FRONT(f)
        if ((*f)->tick_ms && (wanted = (*f)->tick_ms()) < ms)
            ms = wanted;
    return ms;
}

const char *tap_fronts_trouble(void)
{
    const char *first = NULL;

    FOR_EACH_FRONT(f)
        if (!first && (*f)->trouble)
            first = (*f)->trouble();
    return first;
}

void tap_fronts_forked(void)
{
    atomic_store(&tap_gpu_launches_seen, false);
    FOR_EACH_FRONT(f)
        if ((*f)->forked)
            (*f)->forked();
}

const char *tap_fronts_dump_flight(enum tap_dump_reason why)
{
    const char *first = NULL;

    FOR_EACH_FRONT(f) {
        const char *s = (*f)->dump_flight ? (*f)->dump_flight(why) : NULL;

        if ((*f)->dump_flight && !s)
            return NULL;
        first = first ? first : s;
    }
    return first ? first : "there is no flight recorder in this process";
}

uint32_t tap_fronts_flight_mib(void)
{
    uint32_t mib = 0, one;

    FOR_EACH_FRONT(f)
        if ((*f)->flight_mib && (one = (*f)->flight_mib()) > mib)
            mib = one;
    return mib;
}

/* The front that times kernels; NULL: there is none. */
static const struct tap_front *times_front(void)
{
    FOR_EACH_FRONT(f)
        if ((*f)->times_begin)
            return *f;
    return NULL;
}

static const char no_times[] = "no front here times the kernels of a GPU";

const char *tap_fronts_times_begin(void)
{
    const struct tap_front *f = times_front();

    return f ? f->times_begin() : no_times;
}

const char *tap_fronts_times_end(struct tap_msg *reply)
{
    const struct tap_front *f = times_front();

    return f ? f->times_end(reply) : no_times;
}

const char *tap_fronts_times_get(uint32_t number, struct tap_msg *reply)
{
    const struct tap_front *f = times_front();

    return f ? f->times_get(number, reply) : no_times;
}

void tap_fronts_times_drop(void)
{
    const struct tap_front *f = times_front();

    if (f)
        f->times_drop();
}

void tap_fronts_describe(struct tap_msg *greeting)
{
    char library[TAP_TEXT], build[TAP_TEXT];
    size_t n = 0;

    FOR_EACH_FRONT(f) {
        if (!(*f)->describe(library, build, TAP_TEXT))
            continue;
        if (!n) {
            memcpy(greeting->library, library, TAP_TEXT);
            memcpy(greeting->build, build, TAP_TEXT);
        }
        n += (size_t)snprintf(greeting->fronts + n, n < TAP_FRONTS ? TAP_FRONTS - n : 0, "%s%s",
                              n ? " " : "", (*f)->name);
    }
}
