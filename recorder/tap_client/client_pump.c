/* client_pump.c - the tap client's two threads, the heart and the pump.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/client_pump.h"

#include <math.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/proc.h"
#include "recorder/tap_client/client_ledger.h"
#include "recorder/tap_client/ask_flight_dump.h"
#include "recorder/tap_client/read_rings.h"

#define NAP_MIN_NS TD_NS_PER_MS
#define NAP_MAX_NS (5 * TD_NS_PER_MS)
#define ASLEEP_NS (20 * TD_NS_PER_MS)
#define LOOK_NS (100 * TD_NS_PER_MS)
#define REST_STOPPED_MS 2000          /* for what is left, once a signal asked for the end */

/* The heart. */
static void *beat(void *arg)
{
    struct td_tap_client *c = arg;

    while (!atomic_load(&c->stop)) {
        int i;

        for (i = 0; i < c->n; i++)
            atomic_fetch_add(&c->tap[i].shared->heartbeat, 1);
        td_clock_sleep_until(td_clock_mono_ns() + TAP_BEAT_MS * TD_NS_PER_MS / 2);
    }
    return NULL;
}

/* Is there no more time for what taps left behind? spent_ns : on it, so far */
static bool rest_is_over(struct td_tap_client *c, int64_t spent_ns)
{
    if (!c->rest_most_ns)
        c->rest_most_ns = (c->opt.rest_ms > 0 ? c->opt.rest_ms : TD_TAP_CLIENT_REST_MS) * TD_NS_PER_MS;
    if (c->opt.stop && *c->opt.stop && !c->rest_stopped) {
        c->rest_stopped = true;
        if (c->rest_most_ns > spent_ns + REST_STOPPED_MS * TD_NS_PER_MS)
            c->rest_most_ns = spent_ns + REST_STOPPED_MS * TD_NS_PER_MS;
    }
    return spent_ns > c->rest_most_ns;
}

/* Give up what is left in the rings of a process: it sends faster than it can be written, or sends
 * on purpose what takes long. */
static void give_up_rest(struct td_tap_client *c, struct client_tap *tap)
{
    uint32_t i;

    for (i = 0; i < tap->rings; i++) {
        struct client_ring *r = &tap->ring[i];

        if (!r->corrupt && atomic_load_explicit(&r->shared->head, memory_order_relaxed) != r->read)
            client_ring_break(c, tap, r, "a ring holds more than could be read in time");
    }
}

void client_drain_all(struct td_tap_client *c, struct client_tap *tap)
{
    const int64_t begun = td_clock_mono_ns();
    uint32_t i;

    for (i = 0; i < tap->rings; i++)
        tap->ring[i].read_before = tap->ring[i].read;
    while (client_drain(c, tap)) {
        for (i = 0; i < tap->rings; i++) {
            struct client_ring *r = &tap->ring[i];

            if (!r->corrupt && r->read - r->read_before > 2 * tap->ring_bytes)
                client_ring_break(c, tap, r, "a ring goes on being filled after the tap was stopped");
        }
        if (rest_is_over(c, c->rest_ns + td_clock_mono_ns() - begun)) {
            give_up_rest(c, tap);
            break;
        }
    }
    c->rest_ns += td_clock_mono_ns() - begun;
    client_ledger_update(c, tap);
}

void client_lose(struct td_tap_client *c, struct client_tap *tap)
{
    client_drain_all(c, tap);          /* what it sent before it died is complete */
    tap->alive = false;
    tap->armed = 0;
    c->state.alive--;
    c->state.links_lost++;
    td_writer_count(c->opt.writer, "links.lost", 1, 0);
    td_log(TD_LOG_WARN, "tap", "process %d of the server is gone", (int)tap->pid);
}

/* Count, and note a process that ended, or whose tap went to sleep. */
static void look_after(struct td_tap_client *c, struct client_tap *tap)
{
    client_ledger_update(c, tap);
    if (!tap->alive)
        return;
    if (client_tap_hung_up(tap)) {
        client_lose(c, tap);
    } else if (tap->armed && !atomic_load(&tap->shared->armed) &&
               atomic_load(&tap->shared->why_asleep) == TAP_ASLEEP_HEARTBEAT) {
        tap->armed = 0;
        c->state.links_lost++;
        td_writer_count(c->opt.writer, "links.disarmed", 1, 0);
        td_log(TD_LOG_WARN, "tap",
               "process %d: the tap went to sleep by itself, it saw no heartbeat for %d ms",
               (int)tap->pid, TAP_DEAD_MS);
    }
}

/* How long the pump sleeps next: shorter when the fullest ring was fuller. Each waking takes a core
 * from the server for a moment. */
static int64_t next_nap(int64_t nap_ns, double full)
{
    nap_ns = full > 0.125 ? nap_ns / 4 : nap_ns * 2;
    return nap_ns < NAP_MIN_NS ? NAP_MIN_NS : nap_ns > NAP_MAX_NS ? NAP_MAX_NS : nap_ns;
}

/* Empty the rings, and look after the processes every LOOK_NS. The lock is given up in between for
 * others. */
static void *pump(void *arg)
{
    struct td_tap_client *c = arg;
    int64_t looked = 0, nap_ns = NAP_MIN_NS;

    td_proc_give_way();
    while (!atomic_load(&c->stop)) {
        int64_t now = td_clock_mono_ns();
        bool armed = false, more = false;
        double full = 0;
        int i;

        pthread_mutex_lock(&c->lock);
        for (i = 0; i < c->n; i++) {
            full = fmax(full, client_fullest(&c->tap[i]));
            more |= client_drain(c, &c->tap[i]) >= CLIENT_DRAIN_MAX;
            armed |= c->tap[i].armed != 0;
            if (now - looked > LOOK_NS)
                look_after(c, &c->tap[i]);
        }
        pthread_mutex_unlock(&c->lock);
        client_dump_if_asked(c);
        if (now - looked > LOOK_NS)
            looked = now;
        nap_ns = next_nap(nap_ns, full);
        if (!more || atomic_load(&c->waiting))
            td_clock_sleep_until(td_clock_mono_ns() + (armed ? nap_ns : ASLEEP_NS));
    }
    return NULL;
}

int client_pump_start(struct td_tap_client *c, struct td_error *err)
{
    c->beating = !pthread_create(&c->heart, NULL, beat, c);
    c->pumping = !pthread_create(&c->pump, NULL, pump, c);
    return c->beating && c->pumping ? TD_OK : td_fail(err, TD_EIO, "cannot start a thread");
}

void client_pump_stop(struct td_tap_client *c)
{
    atomic_store(&c->stop, true);
    if (c->beating)
        pthread_join(c->heart, NULL);
    if (c->pumping)
        pthread_join(c->pump, NULL);
}
