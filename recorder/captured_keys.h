/* captured_keys.h - the secrets that captured requests send, so that they are found where they come back.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An active recording knows its keys: they are given by -H. A passive one learns those of others: the values
 * of secret headers (those that are overwritten) and trailers, of secret parameters in the query, and what else
 * redaction overwrites in the line and the headers of a request. Escapes of URLs are read.
 * They are searched for by the rules of format/redact_values.h in all that is written and printed after. */
#ifndef TD_RECORDER_CAPTURED_KEYS_H
#define TD_RECORDER_CAPTURED_KEYS_H

#include <signal.h>

#include "format/fixture.h"
#include "wire/capture/capture.h"

struct td_captured_keys;
/* rules : those of the writer; their `values` are learned into (td_redact_values_open); borrowed */
int td_captured_keys_new(const struct td_redaction *rules, struct td_captured_keys **out, struct td_error *err);
void td_captured_keys_free(struct td_captured_keys *k);
/* Learn the secrets of a request of n bytes, with a NUL behind them. TD_ETRUNCATED: its head, or the trailers
 * behind its chunks, are not there as a whole, so one of them may not be. TD_EUNSUPPORTED: its body is compressed,
 * and what it asks is not known; its keys were learned. TD_ELIMIT, TD_ENOMEM: not all of them
 * could be kept, so what is written from here on may show one. */
int td_captured_keys_learn(struct td_captured_keys *k, const char *request, size_t n, struct td_error *err);
/* Learn those of a whole file of packets, before anything of it is recorded: a key may come back in the answer
 * of another connection before the request that sends it is seen. Nothing is done where the file can be read only
 * once (a pipe). Ends early at the first key that cannot be kept, and that is TD_OK: the recording meets it, too.
 *   server, max_held_bytes : as in struct td_capture_options
 *   stop                   : other than 0: end
 * TD_EIO: it cannot be read; what else td_packets_open_file() returns. */
int td_captured_keys_read(struct td_captured_keys *k, const char *file, const struct td_endpoint *server, int64_t max_held_bytes,
                          const volatile sig_atomic_t *stop, struct td_error *err);

#endif
