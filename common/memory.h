/* memory.h - the memory that a program may take for what it reads.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A few kilobytes from outside can stand for gigabytes: a compressed frame, a line of JSON. Who
 * reads them asks for room first, with an upper bound of what the bytes will take. The answer is
 * measured, not booked: the process's own memory as the kernel counts it, and the bound, must stay
 * below the maximum. So nothing has to be given back, and what other parts of the program hold
 * counts as well. Several threads that ask at once may together exceed the maximum by what each of
 * them asked for. */
#ifndef TD_COMMON_MEMORY_H
#define TD_COMMON_MEMORY_H

#include <stdint.h>

#include "common/error.h"

#define TD_MEMORY_MIN ((int64_t)64 << 20)   /* the smallest maximum that can be set */
#define TD_MEMORY_RECORD_PART 4             /* one record takes at most the maximum divided by this */

/* The maximum in bytes: what td_memory_set() set, or half of the least of the machine's memory, what the control
 * groups of the process allow, and its address space. */
int64_t td_memory_max(void);
/* The address space that the process may have (RLIMIT_AS, ulimit -v). INT64_MAX: any. Each thread takes much of it that
 * is never memory: a stack, and room for its allocations. */
int64_t td_memory_address_space(void);
/* Called by main before there are threads. Where the address space is small (4 GiB), all threads allocate in one place: glibc
 * gives each one 64 MiB of its own otherwise, 128 MiB for a moment, so that what three threads happen to do at once decides
 * whether an allocation fails. */
void td_memory_begin(void);
/* Set the maximum: --max-memory.
 *   size : "8G", "512M", a number of bytes; borrowed for the life of the program
 * TD_EINVAL: it is no size, or less than TD_MEMORY_MIN. */
int td_memory_set(const char *size, struct td_error *err);
/* What was set, as it was written; NULL: nothing was. For the programs that a program starts. */
const char *td_memory_given(void);
/* Memory of this process that no other one shares, in bytes. 0: not known. */
int64_t td_memory_used(void);
/* Count delta bytes more (or fewer) that this process caused and that are not its own: shared memory, what a process
 * that it started holds for it. */
void td_memory_beside(int64_t delta);
/* Bytes that may still be taken. */
uint64_t td_memory_left(void);
/* From now on the maximum is what is in use now, and n bytes more: for a process that also runs somebody else's code,
 * whose memory is not ours to bound. */
void td_memory_allow(uint64_t n);
/* From now on malloc() keeps what is freed, for what comes next, since each new page costs a page fault. Where td_memory_room() finds
 * too little, all of it is given back first. */
void td_memory_keep_freed(void);
/* Is there room for n more bytes? TD_ENOMEM names the maximum and the option that raises it.
 *   what : "FILE: frame 3"; the sentence begins with it */
int td_memory_room(uint64_t n, const char *what, struct td_error *err);
/* The same for one record, which may take a part of the maximum only. */
int td_memory_room_record(uint64_t n, const char *what, struct td_error *err);

#endif
