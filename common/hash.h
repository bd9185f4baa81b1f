/* hash.h - content addresses: XXH3-128 (libxxhash) as 32 hexadecimal digits, high half first.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This is no cryptographic hash: it detects equal content and damage, not forgery. manifest.json
 * names it "xxh3-128". */
#ifndef TD_COMMON_HASH_H
#define TD_COMMON_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_HASH_NAME "xxh3-128"
#define TD_HASH_HEX 33 /* with the NUL */

struct td_hash { uint64_t hi, lo; };

struct td_hash td_hash_bytes(const void *data, size_t n);
uint64_t td_hash64(const void *data, size_t n);               /* XXH3, 64 bits: checksums of frames */
bool td_hash_eq(struct td_hash a, struct td_hash b);
bool td_hash_is_zero(struct td_hash h);                       /* no hash known */

/* The hash of bytes that come in pieces, whatever the pieces. *s is NULL before the first one and after the end. */
struct td_hash_pieces;
int td_hash_pieces_add(struct td_hash_pieces **s, const void *data, size_t n); /* TD_OK or TD_ENOMEM */
struct td_hash td_hash_pieces_end(struct td_hash_pieces **s);                  /* of *s NULL: that of no bytes */

void td_hash_hex(struct td_hash h, char out[TD_HASH_HEX]);
int td_hash_parse(const char *hex, struct td_hash *out);      /* TD_OK or TD_EINVAL */

#endif
