/* ask_flight_dump.c - ask the taps to dump the rings of their flight recorders.
 * SPDX-License-Identifier: Apache-2.0 */
#include "recorder/tap_client/ask_flight_dump.h"

#include "common/log.h"

#define ANSWER_MS 3000

bool client_dump_flight(struct td_tap_client *c, enum tap_dump_reason why, bool *busy)
{
    int i, n = 0;

    *busy = pthread_mutex_trylock(&c->talk) != 0; /* not waited for: a tap that disarms waits for
                                                     the pump, which may be us */
    if (*busy)
        return false;
    for (i = 0; i < c->n; i++) {
        struct tap_msg m = {.type = TAP_DUMP, .mode = why}, reply;
        struct td_error err = {0};

        if (!c->tap[i].alive || !c->tap[i].armed)
            continue;
        if (client_tap_ask(&c->tap[i], &m, &reply, ANSWER_MS, &err))
            td_log(TD_LOG_INFO, "tap", "%s", err.msg);
        else
            n++;
    }
    pthread_mutex_unlock(&c->talk);
    return n > 0;
}

void client_dump_if_asked(struct td_tap_client *c)
{
    bool busy = false;

    if (!c->opt.dump_asked || !*c->opt.dump_asked)
        return;
    if (!client_dump_flight(c, TAP_DUMP_SIGNAL, &busy) && !busy)
        td_log(TD_LOG_WARN, "tap",
               "SIGUSR1: no flight recorder is running (it runs in the tapped repeats, on a GPU), "
               "or its ring is being dumped already");
    if (!busy)
        *c->opt.dump_asked = 0;
}
