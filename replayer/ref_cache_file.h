/* ref_cache_file.h - a reference as the bytes of a file of the cache.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A head of 64 bytes, then r1, r0 unless it is r1, mag, slack and ordered where they are there, a byte for each
 * row where not all are judged. Doubles, but mag and slack as floats where that changes nothing. Numbers are
 * those of this machine: another one has another program, and so other names. */
#ifndef TD_REPLAYER_REF_CACHE_FILE_H
#define TD_REPLAYER_REF_CACHE_FILE_H

#include "common/hash.h"
#include "kernels/ops/op.h"

/* The bytes, from malloc. NULL: out of memory.
 *   key : stands in the head, so that a file under a wrong name is none */
void *td_ref_file_make(const struct td_op_ref *ref, struct td_hash key, size_t *n);
/* The most bytes that a file for so many elements has. */
size_t td_ref_file_most(int64_t rows, int64_t cols);
/* Read it. TD_ECORRUPT: it is damaged, of another key or of other sizes; TD_ENOMEM: there is no memory. */
int td_ref_file_read(const void *bytes, size_t n, struct td_hash key, int64_t rows, int64_t cols, struct td_op_ref *ref);

#endif
