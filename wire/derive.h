/* derive.h - exchanges out of the wire log: HTTP, SSE and JSON understood after the fact, never on the hot path.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Feed the records of any number of interleaved streams in the order of the file. An exchange is emitted when the
 * {"close"} note of its stream arrives, and for streams without one at td_deriver_end() (error_kind "cut").
 * `record` derives live, `fixture repair` again from wire.zst: the same bytes give the same exchange.
 *
 * What is understood: HTTP/1.1 (chunked, by length, until close; interim 1xx skipped), SSE (LF, CRLF, CR; comments; "error:"
 * lines; events over several reads, several events in one read), JSON bodies, and these dialects of the content:
 *   vLLM and OpenAI /v1/completions, /v1/chat/completions; llama.cpp /completion (no [DONE], ends with "stop":true).
 * Times: an event has the time of the read that completed it. An answer in one piece is one event, at its last byte.
 * Tokens: token_ids, else ids in the logprobs ("token_id:N", llama.cpp's "id"), else only a count. NaN and null logprobs
 * become NaN. Rows of `top` are sorted, best first (NaN last). Only choice 0 is kept; others are counted in extra.
 * extra: "fingerprint", "response_id", "group", "due_ns", "other_choices", "bad_events", "no_end_mark" (finished, but
 * without [DONE]) … only where there is something to say; docs/format.md lists them.
 *
 * error_kind and error, the first that holds: "http" (status >= 300), "stream" (an error event inside a stream), "parse"
 * (no JSON or no HTTP where it is due, an answer of another shape), what the close note says ("connect", "timeout", "cut",
 * "server"), "cut" (no end mark). What arrived before is kept. */
#ifndef TD_WIRE_DERIVE_H
#define TD_WIRE_DERIVE_H

#include "format/records.h"

struct td_deriver;

/* Called for each exchange. *x is released after the call; a callback that wants to keep it copies the struct and zeroes *x.
 * Not TD_OK stops: td_deriver_feed/_end return it. */
typedef int td_derive_emit_fn(void *arg, struct td_exchange *x, struct td_error *err);

/* NULL: out of memory. */
struct td_deriver *td_deriver_new(td_derive_emit_fn *emit, void *arg);
void td_deriver_free(struct td_deriver *d);

/* rec is borrowed. Whatever the bytes hold, this is no failure of the deriver: TD_OK, TD_ENOMEM, TD_ELIMIT (more than
 * 65,536 streams open at once), or what emit returned. */
int td_deriver_feed(struct td_deriver *d, const struct td_wire *rec, struct td_error *err);
/* Emit what is still open as "cut". t_ns of the end is that of the stream's last record. */
int td_deriver_end(struct td_deriver *d, struct td_error *err);

/* Records that could not be placed: after their stream's close note. */
int64_t td_deriver_late(const struct td_deriver *d);

/* Figures of one exchange, in ns; -1: not enough events. TTFT: first event with a token - last byte of the request sent.
 * ITL: gaps between tokens, an event of n tokens spreading its gap over them. */
int64_t td_exchange_ttft_ns(const struct td_exchange *x);
int64_t td_exchange_e2e_ns(const struct td_exchange *x);
/* Append up to max gaps to gaps; returns how many. */
size_t td_exchange_gaps(const struct td_exchange *x, double *gaps, size_t max);

#endif
