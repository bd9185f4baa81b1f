/* tap_sender.h - for fronts whose calls are decided on one thread and sent by another.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A device works later than its launches: whether to record is decided when a call is seen
 * (tap_sampler_decide()), what was copied is sent when it is there. The sending thread is the
 * front's own; besides these functions it uses tap_call_begin(), tap_call_end() and
 * tap_call_record_bytes(). Only that thread may call them, never one of the server. They do not
 * wait or allocate. What does not fit into the ring is not sent: ask for room before. */
#ifndef TD_RECORDER_TAP_CORE_TAP_SENDER_H
#define TD_RECORDER_TAP_CORE_TAP_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tap/core/tap_proto.h"

#pragma GCC visibility push(hidden)

/* Bytes free in this thread's ring; 0 also when asleep, or when no ring is free. */
uint64_t tap_send_room(void);

/* This step is recorded: the ops that follow belong to it. False: no room, they are counted as
 * such. */
bool tap_send_step(uint64_t step);
/* The ops that follow belong to this step, whose record was sent before. */
void tap_send_resume_step(uint64_t step);

/* A dump of the flight recorder begins: the ops that follow come from its ring. t_ns: when the
 * reason came. */
bool tap_send_dump(enum tap_dump_reason why, int64_t t_ns, uint64_t ring_bytes);

/* The number of a new set of weights; 0: none to be had. */
uint32_t tap_send_new_weights(void);
/* The recorder wants no ops with this set. */
bool tap_send_weights_refused(uint32_t id);
/* Send bytes [offset, offset + len) of the set's stream: all its tensors in order, `bytes` of each,
 * the same in every chunk; len <= TAP_MAX_CHUNK. False: no room, nothing was sent. */
bool tap_send_weights(uint32_t id, const uint64_t bytes[TAP_MAX_WEIGHTS], uint64_t offset,
                      const void *data, uint32_t len);

/* A kernel was launched n times since the last such record. known: an adapter reads it. */
bool tap_send_kernel(const char *symbol, bool known, uint64_t n);
/* An operator of torch was called so often since the last such record, with tensors of so many
 * bytes. */
bool tap_send_operator(const char *name, const char *key, bool known, uint64_t calls,
                       uint64_t bytes);

#pragma GCC visibility pop
#endif
