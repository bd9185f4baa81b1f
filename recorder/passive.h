/* passive.h - record what others send to a server: from an interface, or from a file of packets.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is sent. The fixture is like any other: its exchanges are derived from the same wire log, only
 * that its bytes and times are those of packets (wire/capture/capture.h). */
#ifndef TD_RECORDER_PASSIVE_H
#define TD_RECORDER_PASSIVE_H

#include "recorder/record_options.h"

struct td_passive_options {
    const struct td_record_options *record; /* out, api, redaction */
    const char *server;           /* HOST:PORT; NULL with a file: any server in it */
    const char *file;             /* of packets; "-": standard input; NULL: listen */
    const char *interface;        /* to listen at */
    double duration_s;            /* 0: until a signal */
    int64_t max_exchanges;        /* 0: any number */
    double sample;                /* of 100 connections so many are kept; 0: all */
    const char *only_paths[TD_ARG_LIST_MAX + 1]; /* NULL-terminated; none: those that generate text */
};

/* Record. The summary and, last, the fixture's path are printed on stdout.
 *   stop : set by a signal handler to other than 0: the recording ends, and is complete
 * TD_EPROTO: there was no exchange, and the sentence says what was there instead; others: what failed. */
int td_passive_record(const struct td_passive_options *opt, const volatile sig_atomic_t *stop,
                      struct td_error *err);

#endif
