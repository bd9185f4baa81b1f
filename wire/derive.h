/* derive.h - make exchanges of the wire log: parse HTTP, SSE and JSON, off the hot path.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Feed the records of any number of interleaved streams in the order of the file. An exchange is
 * emitted when the {"close"} note of its stream arrives, and for streams without one at
 * td_deriver_end() (error_kind "cut"). `record` derives while it records, `fixture repair` again
 * from wire.zst: equal bytes give equal exchanges.
 *
 * Understood are HTTP/1.1 (chunked, by length, until close; interim 1xx skipped), SSE (LF, CRLF,
 * CR; comments; "error:" lines; events over several reads, several events in one read), JSON
 * bodies, and these dialects: vLLM and OpenAI /v1/completions and /v1/chat/completions, vLLM's and
 * SGLang's own generate, llama.cpp /completion (no [DONE], ends with "stop":true).
 *
 * Times   an event has the time of the read that completed it; an answer without a stream is one
 *         event, at its last byte
 * Tokens  token_ids, else ids in the logprobs ("token_id:N", llama.cpp's "id"), else only a count.
 *         NaN and null logprobs become NaN. Rows of `top` are sorted, best first, NaN last. Only
 *         choice 0 is part of the exchange; others are counted in extra. Events after [DONE] are not
 *         read, but counted (late_events). Counts of tokens below 0 or above 2^40 are not reported.
 * extra   "fingerprint", "response_id", "response_model", "group", "due_ns", "start_ns", "other_choices",
 *         "bad_events", "no_end_mark" (finished, but without [DONE]) and more (docs/format.md), each only where
 *         it applies
 * error   error_kind and error are the first of these: "http" (any status but 200), "stream" (an
 *         error event inside a stream), "parse" (no JSON or no HTTP where it is due, an answer of
 *         another shape, one without choice 0, more than TD_ANSWER_MAX_VALUES JSON values, a body
 *         over TD_HTTP_MAX_WHOLE that is not streamed), the kind of the close note ("connect", "timeout", "cut", "server", "unseen"), "cut"
 *         (no end mark; without [DONE], where an earlier answer to this path had it). What arrived before the error is part of the exchange. */
#ifndef TD_WIRE_DERIVE_H
#define TD_WIRE_DERIVE_H

#include "format/records.h"

struct td_deriver;

/* Called for each exchange. *x is released after the call; a callback that wants to own it copies
 * the struct and zeroes *x. Anything but TD_OK stops the deriver: td_deriver_feed() or
 * td_deriver_end() returns it. */
typedef int td_derive_emit_fn(void *arg, struct td_exchange *x, struct td_error *err);

/* NULL: out of memory. */
struct td_deriver *td_deriver_new(td_derive_emit_fn *emit, void *arg);
void td_deriver_free(struct td_deriver *d);

/* Feed one record, which is borrowed. Bytes that make no sense become an exchange with an error,
 * never an error here: TD_OK, TD_ENOMEM, TD_ELIMIT (more than 65,536 streams open at once), or what
 * emit returned. */
int td_deriver_feed(struct td_deriver *d, const struct td_wire *rec, struct td_error *err);
/* Emit streams that are still open as "cut". They end at their last record. */
int td_deriver_end(struct td_deriver *d, struct td_error *err);

/* The number of records that came after their stream's close note. */
int64_t td_deriver_late(const struct td_deriver *d);

/* TTFT and E2E of one exchange in ns; -1: not enough events. TTFT: from the last byte of the
 * request sent to the first event with a token. */
int64_t td_exchange_ttft_ns(const struct td_exchange *x);
int64_t td_exchange_e2e_ns(const struct td_exchange *x);
/* Write up to max ITL gaps, in ns; an event of n tokens spreads its gap over them. Returns how
 * many. */
size_t td_exchange_gaps(const struct td_exchange *x, double *gaps, size_t max);

#endif
